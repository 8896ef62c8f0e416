#include "daemon/output_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

namespace waybill::daemon {
namespace {

constexpr std::uint32_t kEvents = IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_ONLYDIR;

}  // namespace

Result<std::unique_ptr<OutputWatch>> OutputWatch::open(Loop& loop, std::string jobs_dir) {
  UniqueFd fd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!fd.valid()) {
    return fail(ErrorCode::unavailable,
                "cannot watch files: " + std::generic_category().message(errno) +
                    " (see fs.inotify.max_user_instances)");
  }
  return std::unique_ptr<OutputWatch>(new OutputWatch(loop, std::move(jobs_dir), std::move(fd)));
}

OutputWatch::OutputWatch(Loop& loop, std::string jobs_dir, UniqueFd fd)
    : jobs_dir_(std::move(jobs_dir)), fd_(std::move(fd)), watch_(loop.watch(fd_.get())) {
  wait();
}

void OutputWatch::wait() {
  watch_->readable([this] { on_readable(); });
}

OutputWatch::Number OutputWatch::add(const JobId& job, std::function<void()> changed) {
  Directory& directory = directories_[job];
  look_for(job, directory);
  const Number number = next_++;
  directory.users.insert(number);
  waiting_.emplace(number, Waiting{job, std::move(changed)});
  return number;
}

void OutputWatch::remove(Number number) {
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return;
  const auto directory = directories_.find(found->second.job);
  waiting_.erase(found);
  directory->second.users.erase(number);
  if (!directory->second.users.empty()) return;
  if (directory->second.descriptor >= 0) {
    ::inotify_rm_watch(fd_.get(), directory->second.descriptor);
    jobs_.erase(directory->second.descriptor);
  }
  directories_.erase(directory);
}

void OutputWatch::look_for(const JobId& job, Directory& directory) {
  if (directory.descriptor >= 0) return;
  const std::string path = jobs_dir_ + "/" + job.str();
  directory.descriptor = ::inotify_add_watch(fd_.get(), path.c_str(), kEvents);
  if (directory.descriptor >= 0) jobs_.insert_or_assign(directory.descriptor, job);
}

void OutputWatch::job_changed(const JobId& job) {
  const auto directory = directories_.find(job);
  if (directory == directories_.end()) return;
  look_for(job, directory->second);
  tell(job);
}

void OutputWatch::any_changed() {
  std::vector<JobId> jobs;
  jobs.reserve(directories_.size());
  for (const auto& [job, directory] : directories_) jobs.push_back(job);
  for (const JobId& job : jobs) job_changed(job);
}

// Those who are told may remove themselves or others.
void OutputWatch::tell(const JobId& job) {
  const auto directory = directories_.find(job);
  if (directory == directories_.end()) return;
  const std::set<Number> numbers = directory->second.users;
  for (const Number number : numbers) {
    const auto found = waiting_.find(number);
    if (found == waiting_.end()) continue;
    const auto changed = found->second.changed;
    changed();
  }
}

void OutputWatch::on_readable() {
  alignas(inotify_event) char buffer[16 * 1024];
  std::set<JobId> changed;
  bool overflow = false;
  for (;;) {
    const ssize_t got = ::read(fd_.get(), buffer, sizeof buffer);
    if (got <= 0) break;
    for (std::size_t at = 0; at + sizeof(inotify_event) <= static_cast<std::size_t>(got);) {
      inotify_event event;
      std::memcpy(&event, buffer + at, sizeof event);
      at += sizeof event + event.len;
      overflow = overflow || (event.mask & IN_Q_OVERFLOW) != 0;
      if (const auto job = jobs_.find(event.wd); job != jobs_.end()) {
        changed.insert(job->second);
        // The directory went away: the kernel has dropped the watch.
        if ((event.mask & IN_IGNORED) != 0) {
          directories_[job->second].descriptor = -1;
          jobs_.erase(job);
        }
      }
    }
  }
  wait();
  if (overflow) return any_changed();
  for (const JobId& job : changed) tell(job);
}

}  // namespace waybill::daemon
