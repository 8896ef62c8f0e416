#include "shim/stdin.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>

#include "shim/files.h"

namespace waybill::shim {
namespace {

constexpr int kMovesPerTurn = 16;
constexpr char kControlD = 4;

char typing_buffer[4096];

void close_end(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

int open_end(int dir, int flags) {
  const int fd = openat(dir, kInFifo, flags | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return -errno;
  struct stat info{};
  if (fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode)) return fd;
  close(fd);
  return -EINVAL;
}

}  // namespace

int Input::open(int dir, int terminal) {
  if (mkfifoat(dir, kInFifo, 0600) != 0 && errno != EEXIST) return errno;
  // Both ends in one, so that neither of the others blocks or fails for want of a counterpart.
  int both = open_end(dir, O_RDWR | O_NONBLOCK);
  if (both < 0) return -both;
  if (terminal >= 0) {
    read_ = both;
    terminal_ = terminal;
    return 0;
  }
  child_ = open_end(dir, O_RDONLY);
  hold_ = child_ < 0 ? -1 : open_end(dir, O_WRONLY | O_NONBLOCK);
  close(both);
  if (child_ < 0) return -child_;
  return hold_ < 0 ? -hold_ : 0;
}

void Input::forget_child_end() { close_end(child_); }

// True when everything in the buffer is typed.
bool Input::type_some() {
  while (to_type() > 0) {
    const ssize_t n = write(terminal_, typing_buffer + typed_, to_type());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    typed_ += static_cast<std::size_t>(n);
    const char last = typing_buffer[typed_ - 1];
    line_begun_ = last != '\n' && last != '\r';
  }
  filled_ = typed_ = 0;
  return true;
}

// The terminal's own way to say it. In the middle of a line the first one only hands the line over.
void Input::add_end_of_file() {
  termios mode{};
  char end = kControlD;
  if (tcgetattr(terminal_, &mode) == 0 && mode.c_cc[VEOF] != _POSIX_VDISABLE) {
    end = static_cast<char>(mode.c_cc[VEOF]);
  }
  if (line_begun_) typing_buffer[filled_++] = end;
  typing_buffer[filled_++] = end;
}

void Input::move() {
  for (int i = 0; i < kMovesPerTurn && type_some() && read_ >= 0; ++i) {
    const ssize_t n = read(read_, typing_buffer, sizeof typing_buffer);
    if (n > 0) {
      filled_ = static_cast<std::size_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (!ending_) return;
    add_end_of_file();
    close_end(read_);
    type_some();
  }
}

void Input::end() {
  ending_ = true;
  close_end(hold_);
  if (read_ >= 0) move();
}

void Input::drop() {
  close_end(hold_);
  close_end(read_);
  filled_ = typed_ = 0;
}

}  // namespace waybill::shim
