#include "supervise/channel_fixture.h"

#include <dirent.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "shim/proc.h"

namespace waybill::supervise {
namespace {

constexpr std::chrono::seconds kCap{60};

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

ChannelTest::ChannelTest() {
  char path[] = "/tmp/waybill-supervise-XXXXXX";
  data_dir_ = mkdtemp(path);
  prefix_ = "j" + std::to_string(getpid()) + "x";
}

ChannelTest::~ChannelTest() {
  channel_.reset();
  // Nothing of a test outlives it.
  for (int pid : processes_with(data_dir_)) kill(pid, SIGKILL);
  std::error_code error;
  std::filesystem::remove_all(data_dir_, error);
}

void ChannelTest::open_channel() {
  channel_.reset();
  LocalChannelOptions options;
  options.data_dir = data_dir_;
  options.shim_path = shim_under_test();
  options.cgroup_root = cgroup_root_;
  options.report = [this](Facts facts) {
    const std::lock_guard<std::mutex> guard(mutex_);
    reports_[facts.job.str()].push_back(std::move(facts));
    changed_.notify_all();
  };
  options.warn = [this](const std::string& text) {
    const std::lock_guard<std::mutex> guard(mutex_);
    warnings_.push_back(text);
  };
  auto channel = LocalChannel::open(std::move(options));
  ASSERT_TRUE(channel) << channel.error().message;
  channel_ = std::move(*channel);
}

LaunchOrder ChannelTest::order(const std::string& command) {
  LaunchOrder launch;
  launch.job = JobId(prefix_ + std::to_string(next_id_++));
  launch.shell = "/bin/bash";
  launch.command = command;
  launch.cwd = "/";
  launch.env = {"PATH=/usr/bin:/bin", "WAYBILL_JOB=" + launch.job.str(), "DATA=" + data_dir_};
  launch.cap_bytes = 64ULL << 20;
  launch.head_bytes = 1ULL << 20;
  return launch;
}

LaunchOrder ChannelTest::argv_order(std::vector<std::string> argv) {
  LaunchOrder launch = order("");
  launch.shell.clear();
  launch.argv = std::move(argv);
  return launch;
}

JobId ChannelTest::run(LaunchOrder launch) {
  if (!channel_) open_channel();
  const JobId job = launch.job;
  channel_->supervise({job, std::move(launch), std::nullopt});
  return job;
}

void ChannelTest::stop(const JobId& job) {
  channel_->supervise({job, std::nullopt, StopWish{WallTime(Millis(1)), "owner", "a test"}});
}

void ChannelTest::look(const JobId& job) { channel_->supervise({job, std::nullopt, std::nullopt}); }

core::JobFacts ChannelTest::wait_for(const JobId& job, const Predicate& predicate) {
  std::unique_lock<std::mutex> guard(mutex_);
  Facts found;
  const bool in_time = changed_.wait_for(guard, kCap, [&] {
    for (const Facts& facts : reports_[job.str()]) {
      if (!predicate(facts)) continue;
      found = facts;
      return true;
    }
    return false;
  });
  if (!in_time) {
    std::string seen;
    for (const Facts& facts : reports_[job.str()]) {
      seen += std::string(core::to_word(facts.supervision)) + " " + facts.launch_error + "; ";
    }
    ADD_FAILURE() << "no such report for " << job.str() << "; seen: " << seen;
  }
  return found;
}

core::JobFacts ChannelTest::wait_finished(const JobId& job) {
  return wait_for(job, [](const Facts& facts) {
    return facts.supervision == core::Supervision::finished && facts.leftovers &&
           facts.leftovers->settled;
  });
}

core::JobFacts ChannelTest::wait_running(const JobId& job) {
  return wait_for(job,
                  [](const Facts& facts) { return facts.started_at.has_value() && !facts.exit; });
}

std::vector<core::JobFacts> ChannelTest::reports(const JobId& job) {
  const std::lock_guard<std::mutex> guard(mutex_);
  return reports_[job.str()];
}

std::size_t ChannelTest::warning_count() {
  const std::lock_guard<std::mutex> guard(mutex_);
  return warnings_.size();
}

std::string ChannelTest::file(const JobId& job, const std::string& name) const {
  return slurp(job_path(job) + "/" + name);
}

bool ChannelTest::has_file(const JobId& job, const std::string& name) const {
  return std::filesystem::exists(job_path(job) + "/" + name);
}

void ChannelTest::wait_output(const JobId& job, const std::string& text) {
  ASSERT_TRUE(eventually([&] { return file(job, "out").find(text) != std::string::npos; }))
      << "output never held " << text << ", but " << file(job, "out");
}

int ChannelTest::pid_in(const JobId& job, const std::string& key) {
  const std::string text = file(job, "start.json");
  const std::size_t at = text.find("\"" + key + "\":");
  int pid = 0;
  if (at != std::string::npos) {
    std::from_chars(text.data() + at + key.size() + 3, text.data() + text.size(), pid);
  }
  EXPECT_GT(pid, 0);
  return pid;
}

std::vector<int> processes_with(const std::string& text) {
  std::vector<int> found;
  DIR* dir = opendir("/proc");
  if (dir == nullptr) return found;
  while (const dirent* entry = readdir(dir)) {
    const int pid = std::atoi(entry->d_name);
    if (pid <= 0 || pid == getpid()) continue;
    const std::string base = "/proc/" + std::string(entry->d_name);
    shim::ProcStat stat;
    if (!shim::read_proc_stat(pid, stat) || stat.state == 'Z' || stat.state == 'X') continue;
    const std::string all = slurp(base + "/cmdline") + slurp(base + "/environ");
    std::string flat = all;
    for (char& c : flat) c = c == '\0' ? ' ' : c;
    if (flat.find(text) != std::string::npos) found.push_back(pid);
  }
  closedir(dir);
  return found;
}

std::string shim_under_test() {
  const char* other = std::getenv("WAYBILL_TEST_SHIM");
  return other != nullptr ? other : WAYBILL_SHIM_PATH;
}

std::string unique_seconds() {
  static std::atomic<int> next{0};
  return std::to_string(100'000'000LL + static_cast<long long>(getpid()) * 100 + next++);
}

bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kCap;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    poll(nullptr, 0, 5);
  }
  return true;
}

}  // namespace waybill::supervise
