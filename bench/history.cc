// What was recorded before: a daemon that starts, accepts and lists with 0, 10,000 and 100,000
// finished jobs in its store, and a thousand live ones. The recorded jobs are rows, written by the
// functions that the daemon uses; they have no files, as after their output has expired.

#include <array>
#include <memory>

#include "base/clock.h"
#include "daemon.h"
#include "figures.h"
#include "store/inbox.h"
#include "store/jobs.h"
#include "store/open.h"
#include "store/random.h"
#include "store/retention.h"
#include "store/sealer.h"
#include "suite.h"

namespace waybill::bench {
namespace {

constexpr int kLive = 1000;
constexpr int kRunning = 50;
constexpr int kPerCommit = 500;
constexpr std::size_t kEnvironmentBytes = 2048;

void must(bool good) {
  if (!good) die("the store refused a row");
}

// Finished and heard jobs of one session.
class History {
 public:
  explicit History(const std::string& path)
      : store_(std::move(*store::open_store(path, clock_))),
        sealer_(store::Sealer::with_key(std::array<unsigned char, 32>{})) {}

  void add(int jobs) {
    for (int done = 0; done < jobs;) {
      must(db().begin().has_value());
      for (int i = 0; i < kPerCommit && done < jobs; ++i, ++done) add_one();
      must(db().commit().has_value());
    }
  }

 private:
  store::Database& db() { return *store_.writer; }

  void step(store::JobRow& job, core::ReceiptName name, core::JobStatus to,
            const std::optional<store::EndingRow>& ending) {
    core::Receipt receipt;
    receipt.job = job.id;
    receipt.seq = job.receipts + 1;
    receipt.node_seq = ++node_;
    if (job.receipts > 0) receipt.from = job.status;
    receipt.to = to;
    receipt.name = name;
    receipt.at = clock_.wall();
    receipt.actor = "supervisor";
    receipt.reason = "exit 0";
    receipt.scope = job.scope;
    must(store::write_transition(db(), job, receipt, ending).has_value());
  }

  void add_one() {
    store::JobRow job;
    job.seq = ++seq_;
    job.id = JobId(store::random_id("j", clock_));
    job.scope = {{TenantId("local"), SessionId("h")}, {}, SandboxId("local"), GenerationId("g")};
    job.command_preview = "cmake --build build --parallel 2 && ctest --test-dir build";
    job.cwd = "/tmp";
    job.fingerprint = sealer_.fingerprint(job.id.str());
    job.created_at = clock_.wall();
    must(store::insert_job(db(), job).has_value());
    step(job, core::ReceiptName::queued, core::JobStatus::queued, std::nullopt);
    store::LaunchRow launch;
    launch.job = job.id;
    launch.shell = "/bin/bash";
    launch.sealed = sealer_.seal(std::string(kEnvironmentBytes, 'x'), job.id.str());
    must(store::insert_launch(db(), launch).has_value());
    step(job, core::ReceiptName::started, core::JobStatus::running, std::nullopt);
    store::EndingRow ending;
    ending.finished_at = clock_.wall();
    ending.verdict = core::Verdict::ok;
    ending.exit = core::Exit::exited(0);
    step(job, core::ReceiptName::completed, core::JobStatus::succeeded, ending);
    must(store::insert_ended(db(), job.seq, clock_.wall()).has_value());
    store::InboxRow event;
    event.seq = ++inbox_;
    event.event = core::make_event_id(job.id, core::ReceiptName::completed, 1);
    event.owner = job.scope.owner;
    event.job = job.id;
    event.due_at = event.created_at = clock_.wall();
    must(store::insert_inbox(db(), event).has_value());
    event.state = core::InboxState::acked;
    event.acked_as = core::AckedAs::processed;
    event.acked_at = clock_.wall();
    must(store::write_inbox(db(), event).has_value());
  }

  SystemClock clock_;
  store::OpenedStore store_;
  store::Sealer sealer_;
  std::uint64_t seq_ = 0;
  std::uint64_t node_ = 0;
  std::uint64_t inbox_ = 0;
};

constexpr char kJob[] = R"({"session":"h","cwd":"/","argv":["/bin/sleep","100000"]})";

void measure(const Suite& suite, int recorded) {
  const std::string dir = suite.dir + "/history" + std::to_string(recorded);
  const Daemon::Options options{suite.waybill,
                                dir,
                                {"running_per_node=" + std::to_string(kRunning),
                                 "running_per_session=1000", "queued_per_session=100000"}};
  {
    const Daemon first(options);
  }  // makes the store
  History(dir + "/waybill.db").add(recorded);
  Samples start, accept, list;
  auto daemon = std::make_unique<Daemon>(options);
  {
    Client client(daemon->socket_path());
    for (int i = 0; i < kLive; ++i) client.call("job.run", kJob);
    const int few = suite.times(300);
    for (int round = 0; round < suite.rounds; ++round) {
      std::int64_t from = mono_ns();
      for (int i = 0; i < few; ++i) client.call("job.run", kJob);
      accept.push_back(few / seconds_since(from));
      from = mono_ns();
      for (int i = 0; i < few; ++i) client.call("job.list", R"({"session":"h","limit":50})");
      list.push_back(seconds_since(from) * 1e3 / few);
    }
  }
  for (int round = 0; round < suite.rounds; ++round) {
    daemon->abandon();
    const std::int64_t from = mono_ns();
    daemon = std::make_unique<Daemon>(options);
    Client(daemon->socket_path()).call("job.list", R"({"session":"h","limit":50})");
    start.push_back(seconds_since(from) * 1e3);
  }
  print_text("recorded jobs", std::to_string(recorded));
  print_row("  start after a kill, until a list is answered", start, "ms");
  print_row("  accept, 1 caller", accept, "/s");
  print_row("  list of 50", list, "ms");
  if (recorded == suite.times(10'000)) {
    print_target("start with 10,000 recorded, 1,000 and more live", median(start),
                 {Aim::below, 1000, "ms"});
  }
}

}  // namespace

void bench_history(const Suite& suite) {
  print_section("History: start, accept and list by what was recorded before");
  measure(suite, 0);
  for (const int recorded : {10'000, 100'000}) measure(suite, suite.times(recorded));
}

}  // namespace waybill::bench
