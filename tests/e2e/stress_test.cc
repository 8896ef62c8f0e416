// Many short jobs with stops among them, and nothing left of them: no process, no descriptor, no
// memory. WAYBILL_STRESS_JOBS says how many (`./test stress`: 10,000, under each sanitizer too).

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>

#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

namespace json = boost::json;

constexpr int kBatch = 200;
constexpr int kStopsPerBatch = 4;

int jobs_wanted() {
  const char* text = std::getenv("WAYBILL_STRESS_JOBS");
  return text == nullptr ? 2 * kBatch : std::max(kBatch, std::atoi(text));
}

// What a job does, and how it must end unless it is stopped.
struct Kind {
  const char* command;
  const char* status;
  const char* verdict;
};
constexpr Kind kKinds[] = {
    {"true", "succeeded", "ok"},
    {"exit 3", "failed", "failed"},
    {"false | cat", "failed", "stage_failed"},
    {"seq 1 2000", "succeeded", "ok"},
    {"kill -9 $$", "failed", "signaled"},
    {"sleep 600 & exit 0", "succeeded", "ok"},
    {"(setsid sleep 600 >/dev/null 2>&1 &) ; exit 4", "failed", "failed"},
    {"trap '' TERM; for i in 1 2 3; do (true &); done; exit 5", "failed", "failed"},
};

std::size_t descriptors_of(pid_t pid) {
  const std::filesystem::directory_iterator begin("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<std::size_t>(std::distance(begin, std::filesystem::directory_iterator{}));
}

std::size_t number_in(const std::string& text, const std::string& key) {
  const std::size_t at = text.find(key);
  return at == std::string::npos
             ? 0
             : static_cast<std::size_t>(std::strtoull(text.c_str() + at + key.size(), nullptr, 10));
}

// Resident anonymous memory of a process, in KiB.
std::size_t memory_of(pid_t pid) {
  return number_in(read_file("/proc/" + std::to_string(pid) + "/status"), "RssAnon:");
}

// Children of a process, and how many of them are zombies.
std::vector<char> children_states(pid_t parent) {
  std::vector<char> states;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string stat = read_file(entry.path() / "stat");
    const std::size_t end = stat.rfind(')');
    if (end == std::string::npos || end + 4 > stat.size()) continue;
    std::istringstream fields(stat.substr(end + 2));
    char state = 0;
    pid_t ppid = 0;
    if (fields >> state >> ppid && ppid == parent) states.push_back(state);
  }
  return states;
}

class Stress {
 public:
  explicit Stress(Daemon& daemon) : daemon_(daemon), client_(daemon.socket()) {}

  void run_batch() {
    std::vector<std::string> jobs;
    std::map<std::string, const Kind*> kinds;
    for (int i = 0; i < kBatch; ++i) {
      const Kind& kind = kKinds[random_() % std::size(kKinds)];
      const std::string id = start(kind);
      ASSERT_FALSE(id.empty());
      jobs.push_back(id);
      kinds[id] = &kind;
      // A stop may come before the start, during it, or after the end.
      if (i % (kBatch / kStopsPerBatch) == 7) {
        const std::string& victim = jobs[random_() % jobs.size()];
        client_.call("job.stop", {{"jobs", json::array{json::string(victim)}}});
        ++stops_;
      }
    }
    for (const std::string& id : jobs) check(id, *kinds[id]);
    done_ += kBatch;
  }

  // Returns once nothing is running and no supervisor is left.
  bool quiet() {
    for (int i = 0; i < 600; ++i) {
      if (children_states(daemon_.pid()).empty()) return true;
      // Supervisors of killed leftovers end a little later than their jobs.
      ::usleep(100'000);
    }
    return false;
  }

  int stops() const { return stops_; }
  int stopped() const { return stopped_; }

 private:
  std::string start(const Kind& kind) {
    const json::value made = client_.call(
        "job.run", {{"command", kind.command},
                    {"cwd", "/tmp"},
                    {"grace_ms", 100},
                    {"env", {{"PATH", "/usr/bin:/bin"}, {"E2E_MARK", daemon_.data_dir()}}}});
    return text_at(made, "result.job.id");
  }

  void check(const std::string& id, const Kind& kind) {
    client_.call("job.wait", {{"jobs", json::array{json::string(id)}}, {"timeout_ms", 120'000}});
    const json::value job = at(client_.call("job.show", {{"job", id}}), "result.job");
    SCOPED_TRACE(json::serialize(job));
    ASSERT_EQ(endings_of(job).size(), 1U);
    const std::string status = text_at(job, "status");
    if (status == "stopped") {
      ++stopped_;
      return;
    }
    EXPECT_EQ(status, kind.status) << kind.command;
    EXPECT_EQ(text_at(job, "verdict"), kind.verdict) << kind.command;
  }

  Daemon& daemon_;
  RawClient client_;
  std::mt19937 random_{20261130};
  int done_ = 0;
  int stops_ = 0;
  int stopped_ = 0;
};

TEST(StressTest, I7_I14_many_short_jobs_leave_nothing_behind) {
  Daemon::Options options;
  options.arguments = {"--set", "running_per_session=50", "--set", "queued_per_session=5000"};
  Daemon daemon(options);
  daemon.start();
  const int batches = jobs_wanted() / kBatch;
  Stress stress(daemon);
  std::size_t descriptors = 0;
  std::size_t memory = 0;
  for (int batch = 0; batch < batches && !::testing::Test::HasFailure(); ++batch) {
    stress.run_batch();
    // Caches are filled by then.
    if (batch != batches / 5) continue;
    ASSERT_TRUE(stress.quiet());
    descriptors = descriptors_of(daemon.pid());
    memory = memory_of(daemon.pid());
  }
  ASSERT_FALSE(::testing::Test::HasFailure());
  EXPECT_TRUE(stress.quiet()) << "supervisors are left";
  const std::vector<char> children = children_states(daemon.pid());
  EXPECT_TRUE(children.empty()) << children.size() << " children are left";
  EXPECT_EQ(descriptors_of(daemon.pid()), descriptors) << "descriptors are left open";
  const std::size_t now = memory_of(daemon.pid());
  std::printf("%d jobs, %d stops (%d stopped), %zu descriptors, memory %zu KiB, then %zu KiB\n",
              batches * kBatch, stress.stops(), stress.stopped(), descriptors, memory, now);
  // The store's page cache has at most 16,000 KiB; everything else grows with what is live, and
  // nothing is. Half a KiB for each of ten thousand jobs would be seen.
  // Sanitizers count by themselves, at the end.
  if (!kSanitized) {
    EXPECT_LE(now, 24UL * 1024);
  }
  const Output end = daemon.terminate();
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_EQ(end.err.find("Sanitizer"), std::string::npos) << end.err;
}

}  // namespace
}  // namespace waybill::e2e
