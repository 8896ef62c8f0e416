// The thread: descriptors, queue, timers. What is done for a job is in channel_steps.cc.

#include "supervise/channel_loop.h"

#include "base/crash_point.h"
#include "supervise/cgroup_root.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "shim/files.h"

namespace waybill::supervise {
namespace {

constexpr std::uint64_t kQueueToken = 1;
constexpr std::uint64_t kBellToken = 2;
constexpr std::uint64_t kChildToken = 3;

MonoTime now() { return std::chrono::steady_clock::now(); }

bool add_to_epoll(int epoll, int fd, std::uint64_t token) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = token;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

UniqueFd open_bell(const std::string& path) {
  if (mkfifo(path.c_str(), 0600) != 0 && errno != EEXIST) return UniqueFd();
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  struct stat info{};
  if (fd.valid() && (fstat(fd.get(), &info) != 0 || !S_ISFIFO(info.st_mode))) fd.reset();
  return fd;
}

}  // namespace

LocalChannel::Loop::Loop(LocalChannelOptions options)
    : options_(std::move(options)), machine_(read_machine_generation()) {}

LocalChannel::Loop::~Loop() {
  stopping_ = true;
  const std::uint64_t one = 1;
  if (queue_event_.valid()) {
    const ssize_t n = ::write(queue_event_.get(), &one, sizeof one);
    static_cast<void>(n);
  }
  if (thread_.joinable()) thread_.join();
}

Result<void> LocalChannel::Loop::start() {
  std::error_code error;
  const std::filesystem::path data = std::filesystem::absolute(options_.data_dir, error);
  if (error) return fail(ErrorCode::unavailable, "The data directory cannot be found.");
  options_.data_dir = data.string();
  const std::string jobs = options_.data_dir + "/jobs";
  if (mkdir(jobs.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail(ErrorCode::unavailable, "The directory " + jobs + " cannot be made: " +
                                            std::string(strerrordesc_np(errno)) + ".");
  }
  CgroupRoot cgroups = find_cgroup_root(options_.cgroup_root, options_.data_dir);
  if (!cgroups.why.empty()) warn("Jobs get no cgroups of their own: " + cgroups.why + ".");
  cgroup_root_ = std::move(cgroups.path);
  if (!cgroup_root_.empty()) remove_stale_cgroups(cgroup_root_, options_.data_dir);
  bell_ = open_bell(options_.data_dir + "/bell");
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  queue_event_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!bell_.valid() || !epoll_.valid() || !queue_event_.valid() ||
      !add_to_epoll(epoll_.get(), queue_event_.get(), kQueueToken) ||
      !add_to_epoll(epoll_.get(), bell_.get(), kBellToken)) {
    return fail(ErrorCode::unavailable, "The bell of " + options_.data_dir + " cannot be opened: " +
                                            std::string(strerrordesc_np(errno)) + ".");
  }
  adopt_strangers();
  // Signals are the main thread's.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return {};
}

void LocalChannel::Loop::warn(const std::string& text) const {
  if (options_.warn) options_.warn(text);
}

void LocalChannel::Loop::post(SuperviseOrder order) {
  const std::lock_guard<std::mutex> guard(mutex_);
  work_.push_back(Work{std::move(order), {}});
  const std::uint64_t one = 1;
  const ssize_t n = ::write(queue_event_.get(), &one, sizeof one);
  static_cast<void>(n);  // full means that it is already readable
}

void LocalChannel::Loop::post_forget(const JobId& job) {
  const std::lock_guard<std::mutex> guard(mutex_);
  work_.push_back(Work{std::nullopt, job});
  const std::uint64_t one = 1;
  const ssize_t n = ::write(queue_event_.get(), &one, sizeof one);
  static_cast<void>(n);
}

void LocalChannel::Loop::post_cap(const JobId& job, std::uint64_t cap) {
  const std::lock_guard<std::mutex> guard(mutex_);
  work_.push_back(Work{std::nullopt, job, cap});
  const std::uint64_t one = 1;
  const ssize_t n = ::write(queue_event_.get(), &one, sizeof one);
  static_cast<void>(n);
}

void LocalChannel::Loop::run() {
  std::array<epoll_event, 64> events{};
  while (!stopping_) {
    const int n =
        epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms());
    for (int i = 0; i < n && !stopping_; ++i) {
      const std::uint64_t token = events[static_cast<std::size_t>(i)].data.u64;
      if (token == kQueueToken) {
        take_work();
      } else if (token == kBellToken) {
        take_bell();
      } else if (token == kChildToken) {
        reap_strangers();
      } else {
        take_event(token);
      }
    }
    take_timers();
    if (!stopping_) do_next_work();
  }
}

int LocalChannel::Loop::wait_ms() const {
  if (!pending_.empty()) return 0;
  if (timers_.empty()) return -1;
  const auto left = std::chrono::ceil<Millis>(timers_.begin()->first - now());
  return static_cast<int>(std::clamp<Millis::rep>(left.count(), 0, 60'000));
}

void LocalChannel::Loop::take_work() {
  std::uint64_t count = 0;
  const ssize_t n = ::read(queue_event_.get(), &count, sizeof count);
  static_cast<void>(n);
  const std::size_t before = pending_.size();
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    for (Work& item : work_) pending_.push_back(std::move(item));
    work_.clear();
  }
  if (pending_.size() > before) make_directories();
}

// One sync for all launches that have come in together: it is the slowest step on this thread.
void LocalChannel::Loop::make_directories() {
  std::vector<std::string> made;
  for (const Work& item : pending_) {
    if (!item.order || !item.order->launch || item.order->stop ||
        !is_job_dir_name(item.order->job.str())) {
      continue;
    }
    LaunchFailure failure;
    if (make_job_dir(options_.data_dir, item.order->job, failure)) {
      made.push_back(item.order->job.str());
    }
  }
  // What failed here fails again, and is reported, when its turn comes.
  if (made.empty() || !sync_jobs_dir(options_.data_dir).what.empty()) return;
  durable_dirs_.insert(made.begin(), made.end());
}

// One order at a time, so that what has ended is not kept waiting by a row of launches.
void LocalChannel::Loop::do_next_work() {
  if (pending_.empty()) return;
  Work item = std::move(pending_.front());
  pending_.pop_front();
  if (item.order) {
    take_order(std::move(*item.order));
  } else if (item.cap) {
    lower_cap(item.job, *item.cap);
  } else {
    forget_job(item.job);
  }
}

void LocalChannel::Loop::forget_job(const JobId& id) {
  durable_dirs_.erase(id.str());
  const auto found = jobs_.find(id.str());
  if (found == jobs_.end()) return;
  Job& job = *found->second;
  drop_orphan(job);
  clear_wake(job);
  // Our child must still be reaped: it is watched until it has ended.
  if (job.shim_pidfd.valid() && job.shim_pid > 0 && shim_alive(job)) {
    job.forgotten = true;
    job.fifo_hold.reset();
    return;
  }
  reap_shim(job);
  if (job.shim_pidfd.valid()) unwatch(job.shim_token, job.shim_pidfd.get());
  jobs_.erase(found);
}

// Through ctl, which needs no space on the disk; whoever writes the output does it.
void LocalChannel::Loop::lower_cap(const JobId& id, std::uint64_t cap) {
  const auto found = jobs_.find(id.str());
  if (found == jobs_.end() || found->second->forgotten) return;
  if (found->second->orphan) return found->second->orphan->lower_cap(cap);
  const std::string path = job_dir_path(options_.data_dir, id) + "/" + shim::kCtl;
  const UniqueFd ctl(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!ctl.valid()) return;
  const std::string wish = "c" + std::to_string(cap) + "\n";
  const ssize_t n = ::write(ctl.get(), wish.data(), wish.size());
  static_cast<void>(n);
}

void LocalChannel::Loop::take_bell() {
  std::array<char, 4096> buffer{};
  std::set<std::string> rung;
  for (;;) {
    const ssize_t n = ::read(bell_.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    bell_rest_.append(buffer.data(), static_cast<std::size_t>(n));
    for (std::size_t end; (end = bell_rest_.find('\n')) != std::string::npos;) {
      rung.insert(bell_rest_.substr(0, end));
      bell_rest_.erase(0, end + 1);
    }
    // Anyone of the same user can write here; only whole lines of ours matter.
    if (bell_rest_.size() > 4096) bell_rest_.clear();
  }
  for (const std::string& name : rung) {
    const auto found = jobs_.find(name);
    if (found != jobs_.end() && !found->second->forgotten) evaluate(*found->second);
  }
}

// As pid 1 of a pid namespace this process inherits every orphan in it, and nobody else would reap
// them. SIGCHLD must be blocked in all threads by now, or it is lost (`serve` does that).
void LocalChannel::Loop::adopt_strangers() {
  if (getpid() != 1) return;
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &children, nullptr);
  child_signals_.reset(signalfd(-1, &children, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!child_signals_.valid() || !add_to_epoll(epoll_.get(), child_signals_.get(), kChildToken)) {
    warn("Orphans of this pid namespace cannot be reaped.");
  }
}

// Looks before it takes: the status of a supervisor belongs to its job.
void LocalChannel::Loop::reap_strangers() {
  signalfd_siginfo dropped{};
  while (::read(child_signals_.get(), &dropped, sizeof dropped) > 0) {
  }
  for (;;) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    const pid_t pid = info.si_pid;
    const auto ours = std::find_if(jobs_.begin(), jobs_.end(),
                                   [pid](const auto& job) { return job.second->shim_pid == pid; });
    if (ours != jobs_.end()) {
      reap_known(*ours->second);
      continue;
    }
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) != pid) return;
    for (const auto& [name, job] : jobs_) {
      if (job->orphan) job->orphan->take_status(pid, status);
    }
  }
}

void LocalChannel::Loop::take_event(std::uint64_t token) {
  const auto found = watched_.find(token);
  if (found == watched_.end()) return;
  const auto [name, source] = found->second;
  const auto entry = jobs_.find(name);
  if (entry == jobs_.end()) return;
  Job& job = *entry->second;
  switch (source) {
    case Source::shim:
      crash_point("supervise.shim_ended");
      reap_shim(job);
      if (job.forgotten) {
        jobs_.erase(entry);
      } else {
        evaluate(job);
      }
      return;
    case Source::orphan_main:
      // Readable for ever from now on.
      if (job.orphan) unwatch(job.main_token, job.orphan->pidfd());
      step_orphan(job);
      return;
    case Source::orphan_survivor:
      if (job.orphan) unwatch(job.survivor_token, job.orphan->survivor());
      step_orphan(job);
      return;
    case Source::orphan_fifo:
      step_orphan(job);
      return;
  }
}

void LocalChannel::Loop::take_timers() {
  std::vector<std::string> due;
  while (!timers_.empty() && timers_.begin()->first <= now()) {
    due.push_back(timers_.begin()->second);
    timers_.erase(timers_.begin());
  }
  for (const std::string& name : due) {
    const auto entry = jobs_.find(name);
    if (entry == jobs_.end()) continue;
    Job& job = *entry->second;
    job.wake_at.reset();
    if (job.orphan) {
      step_orphan(job);
    } else {
      evaluate(job);
    }
  }
}

std::uint64_t LocalChannel::Loop::watch(Job& job, Source source, int fd) {
  const std::uint64_t token = next_token_++;
  if (!add_to_epoll(epoll_.get(), fd, token)) return 0;
  watched_.emplace(token, std::make_pair(job.id.str(), source));
  return token;
}

void LocalChannel::Loop::unwatch(std::uint64_t& token, int fd) {
  if (token == 0) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watched_.erase(token);
  token = 0;
}

void LocalChannel::Loop::wake_after(Job& job, Millis delay) {
  clear_wake(job);
  job.wake_at = now() + delay;
  timers_.emplace(*job.wake_at, job.id.str());
}

void LocalChannel::Loop::clear_wake(Job& job) {
  if (job.wake_at) timers_.erase({*job.wake_at, job.id.str()});
  job.wake_at.reset();
}

}  // namespace waybill::supervise
