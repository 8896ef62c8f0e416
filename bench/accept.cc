// Accept rate: calls of job.run that are answered, with jobs that stay queued. Beside it the floor:
// the same rows, written by the same functions, in a store of its own in the same directory.

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "daemon.h"
#include "figures.h"
#include "process.h"
#include "store/jobs.h"
#include "store/open.h"
#include "store/random.h"
#include "store/sealer.h"
#include "store/sessions.h"
#include "suite.h"

namespace waybill::bench {
namespace {

constexpr std::size_t kCallers = 64;
constexpr char kCommand[] = "cmake --build build --parallel 2 && ctest --test-dir build";
constexpr std::size_t kEnvironmentBytes = 1024;

std::string environment_value() { return std::string(kEnvironmentBytes - 5, 'x'); }

std::string run_params(const std::string& session) {
  return R"({"session":")" + session + R"(","cwd":"/tmp","command":")" + kCommand +
         R"(","env":{"PATH":")" + environment_value() + R"("}})";
}

// ---- the floor: rows ---------------------------------------------------------------------------

class Rows {
 public:
  explicit Rows(const std::string& path)
      : store_(std::move(*store::open_store(path, clock_))),
        sealer_(store::Sealer::with_key(std::array<unsigned char, 32>{})) {}

  // Jobs per second; `per_commit` sessions, a job of each in every commit.
  double rate(const std::string& name, int jobs, std::size_t per_commit) {
    std::vector<store::SessionRow> sessions(per_commit);
    for (std::size_t i = 0; i < per_commit; ++i) {
      sessions[i].owner = {TenantId("local"), SessionId(name + std::to_string(i))};
      sessions[i].created_at = clock_.wall();
      must(store::insert_session(*store_.writer, sessions[i]).has_value());
    }
    int done = 0;
    const std::int64_t start = mono_ns();
    while (done < jobs) {
      must(store_.writer->begin().has_value());
      for (store::SessionRow& session : sessions) {
        accept(session);
        ++done;
      }
      must(store_.writer->commit().has_value());
    }
    return done / seconds_since(start);
  }

 private:
  static void must(bool good) {
    if (!good) die("the floor's store refused a row");
  }

  void accept(store::SessionRow& session) {
    store::Database& db = *store_.writer;
    store::JobRow job;
    job.seq = ++seq_;
    job.id = JobId(store::random_id("j", clock_));
    job.scope = {session.owner, {}, SandboxId("local"), GenerationId(std::string(60, 'g'))};
    job.command_preview = kCommand;
    job.cwd = "/tmp";
    job.fingerprint = sealer_.fingerprint(job.id.str());
    job.created_at = clock_.wall();
    core::Receipt receipt;
    receipt.job = job.id;
    receipt.seq = 1;
    receipt.node_seq = seq_;
    receipt.at = job.created_at;
    receipt.actor = "user";
    receipt.scope = job.scope;
    must(store::insert_job(db, job).has_value());
    must(store::write_transition(db, job, receipt, std::nullopt).has_value());
    store::LaunchRow launch;
    launch.job = job.id;
    launch.shell = "/bin/bash";
    launch.sealed = sealer_.seal(std::string(kCommand) + environment_value() + std::string(80, 's'),
                                 job.id.str());
    must(store::insert_launch(db, launch).has_value());
    ++session.queued;
    ++session.revision;
    must(store::update_session(db, session).has_value());
  }

  SystemClock clock_;
  store::OpenedStore store_;
  store::Sealer sealer_;
  std::uint64_t seq_ = 0;
};

double append_rate(const std::string& path, int count) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const std::string block(4096, 'a');
  const std::int64_t start = mono_ns();
  for (int i = 0; i < count; ++i) {
    if (write(fd.get(), block.data(), block.size()) != 4096 || fdatasync(fd.get()) != 0) {
      die("cannot append to " + path);
    }
  }
  return count / seconds_since(start);
}

// ---- waybill -----------------------------------------------------------------------------------

double one_caller(const Daemon& daemon, const std::string& session, int count, Samples& latency) {
  Client client(daemon.socket_path());
  const std::string line = request("job.run", run_params(session));
  const std::int64_t start = mono_ns();
  for (int i = 0; i < count; ++i) {
    const std::int64_t sent = mono_ns();
    client.send(line);
    client.receive();
    latency.push_back(seconds_since(sent) * 1e3);
  }
  return count / seconds_since(start);
}

double many_callers(const Daemon& daemon, const std::string& name, int count) {
  const UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < kCallers; ++i) {
    clients.push_back(std::make_unique<Client>(daemon.socket_path()));
    lines.push_back(request("job.run", run_params(name + std::to_string(i))));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    epoll_ctl(epoll.get(), EPOLL_CTL_ADD, clients.back()->fd(), &event);
  }
  int sent = 0;
  int done = 0;
  const std::int64_t start = mono_ns();
  for (std::size_t i = 0; i < kCallers; ++i, ++sent) clients[i]->send(lines[i]);
  while (done < sent) {
    std::array<epoll_event, kCallers> events{};
    const int ready = epoll_wait(epoll.get(), events.data(), kCallers, -1);
    for (int e = 0; e < ready; ++e) {
      const std::size_t i = events[static_cast<std::size_t>(e)].data.u64;
      std::string answer;
      if (!clients[i]->receive_some(answer)) continue;
      ++done;
      if (sent >= count) continue;
      clients[i]->send(lines[i]);
      ++sent;
    }
  }
  return done / seconds_since(start);
}

struct Figures {
  Samples one, one_cpu, one_latency, many, many_cpu, rows_one, rows_many, rows_cpu, append;
};

void measure(const Daemon& daemon, Rows& rows, const Suite& suite, int round, Figures& out) {
  const std::string name = "r" + std::to_string(round) + "-";
  const int few = suite.times(500);
  const int lots = suite.times(6400);
  double cpu = cpu_seconds(daemon.pid());
  out.one.push_back(one_caller(daemon, name + "one", few, out.one_latency));
  out.one_cpu.push_back((cpu_seconds(daemon.pid()) - cpu) * 1e6 / few);
  out.rows_one.push_back(rows.rate(name + "one", few, 1));
  out.append.push_back(append_rate(suite.dir + "/append", few));
  cpu = cpu_seconds(daemon.pid());
  out.many.push_back(many_callers(daemon, name, lots));
  out.many_cpu.push_back((cpu_seconds(daemon.pid()) - cpu) * 1e6 / lots);
  cpu = cpu_seconds(getpid());
  out.rows_many.push_back(rows.rate(name, lots, kCallers));
  out.rows_cpu.push_back((cpu_seconds(getpid()) - cpu) * 1e6 / lots);
}

}  // namespace

void bench_accept(const Suite& suite) {
  const Daemon daemon({suite.waybill,
                       suite.dir + "/accept",
                       {"running_per_node=1", "queued_per_session=100000"},
                       true});
  Client(daemon.socket_path())
      .call("job.run", R"({"session":"holder","cwd":"/","argv":["/bin/sleep","100000"]})");
  Rows rows(suite.dir + "/rows.db");
  Figures figures;
  for (int round = 0; round < suite.rounds; ++round) measure(daemon, rows, suite, round, figures);
  print_section("Accept: job.run answered, launch durable (jobs stay queued)");
  print_row("4 KiB append + fdatasync", figures.append, "/s");
  print_row("1 caller", figures.one, "/s");
  print_row("  the same rows in SQLite, one job a commit", figures.rows_one, "/s");
  print_row("  CPU of the daemon", figures.one_cpu, "us/job");
  print_row("  latency", figures.one_latency, "ms");
  print_row("64 callers", figures.many, "/s");
  print_row("  the same rows in SQLite, 64 jobs a commit", figures.rows_many, "/s");
  print_row("  CPU of the daemon", figures.many_cpu, "us/job");
  print_row("  CPU of the rows alone", figures.rows_cpu, "us/job");
  print_target("1 caller / rows one a commit", median(ratios(figures.one, figures.rows_one)),
               {Aim::at_least, 0.8, "x"});
  print_target("64 callers / rows 64 a commit", median(ratios(figures.many, figures.rows_many)),
               {Aim::at_least, 0.7, "x"});
}

}  // namespace waybill::bench
