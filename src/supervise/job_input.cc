#include "supervise/job_input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/clock.h"
#include "base/crash_point.h"
#include "shim/files.h"
#include "shim/record.h"

namespace waybill::supervise {
namespace {

UniqueFd open_fifo(const JobDir& dir, const char* name, int& error) {
  UniqueFd fd(openat(dir.fd(), name, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  error = fd.valid() ? 0 : errno;
  struct stat info{};
  if (fd.valid() && (fstat(fd.get(), &info) != 0 || !S_ISFIFO(info.st_mode))) {
    error = ELOOP;
    fd.reset();
  }
  return fd;
}

InputFeed state(InputState state, int error = 0) { return {state, 0, error, {}}; }

// Whether the supervisor runs: it reads `ctl` as long as it lives.
InputState without_fifo(const JobDir& dir) {
  return dir.probe(shim::kExit) == 0 ? InputState::unread : InputState::lost;
}

void write_some(InputFeed& feed, std::string_view bytes) {
  while (feed.taken < bytes.size()) {
    const ssize_t n = ::write(feed.fd.get(), bytes.data() + feed.taken, bytes.size() - feed.taken);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      feed.state = errno == EAGAIN  ? InputState::full
                   : errno == EPIPE ? InputState::unread
                                    : InputState::failed;
      feed.error = errno;
      return;
    }
    feed.taken += static_cast<std::size_t>(n);
  }
  feed.state = InputState::open;
}

}  // namespace

InputFeed feed_input(const std::string& data_dir, const JobId& job, std::string_view bytes) {
  int error = 0;
  const std::optional<JobDir> dir = JobDir::open(data_dir, job, error);
  if (!dir) return error == 0 ? state(InputState::not_started) : state(InputState::failed, error);
  // A supervisor that dies before its start record is started again, with an empty FIFO.
  if (const int missing = dir->probe(shim::kStart)) {
    return missing == ENOENT ? state(InputState::not_started) : state(InputState::failed, missing);
  }
  if (dir->probe(shim::kInClose) == 0) return state(InputState::closed);
  const UniqueFd ctl = open_fifo(*dir, shim::kCtl, error);
  if (error == ENXIO || error == ENOENT) return state(without_fifo(*dir));
  if (error != 0) return state(InputState::failed, error);
  InputFeed feed;
  feed.fd = open_fifo(*dir, shim::kInFifo, error);
  if (error == ENXIO || error == ENOENT) return state(InputState::unread);
  if (error != 0) return state(InputState::failed, error);
  write_some(feed, bytes);
  if (feed.taken > 0) crash_point("supervise.after_input");
  return feed;
}

int close_input(const std::string& data_dir, const JobId& job) {
  int error = 0;
  const std::optional<JobDir> dir = JobDir::open(data_dir, job, error);
  if (!dir) return error == 0 ? ENOENT : error;
  if (dir->probe(shim::kInClose) != 0) {
    shim::JsonLine line;
    line.text("job", job.str());
    line.integer("at_ms", SystemClock().wall().time_since_epoch().count());
    error = dir->write_durably(shim::kInCloseTmp, shim::kInClose, line.finish());
    if (error != 0) return error;
    crash_point("supervise.after_in_close");
  }
  hint_close(*dir);
  return 0;
}

void hint_close(const JobDir& dir) {
  int error = 0;
  const UniqueFd ctl = open_fifo(dir, shim::kCtl, error);
  if (!ctl.valid()) return;  // nobody there to tell
  const ssize_t n = ::write(ctl.get(), "c", 1);
  static_cast<void>(n);
}

bool main_end_recorded(const std::string& data_dir, const JobId& job) {
  return faccessat(AT_FDCWD, (job_dir_path(data_dir, job) + "/" + shim::kExit).c_str(), F_OK,
                   AT_SYMLINK_NOFOLLOW) == 0;
}

}  // namespace waybill::supervise
