#include "shim/pty.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "shim/files.h"

namespace waybill::shim {
namespace {

// Through the descriptor, which needs no path; older kernels and other ones need it.
int open_peer(int ours) {
  const int flags = O_RDWR | O_NOCTTY | O_CLOEXEC;
  const int fd = ioctl(ours, TIOCGPTPEER, flags);
  if (fd >= 0 || (errno != EINVAL && errno != ENOTTY)) return fd;
  unsigned number = 0;
  if (ioctl(ours, TIOCGPTN, &number) != 0) return -1;
  char path[32];
  std::snprintf(path, sizeof path, "/dev/pts/%u", number);
  return ::open(path, flags);
}

}  // namespace

void Terminal::open(bool input) {
  int locked = 0;
  ours = ::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (ours >= 0 && ioctl(ours, TIOCSPTLCK, &locked) == 0) jobs = open_peer(ours);
  if (jobs < 0) {
    error = errno;
    return;
  }
  winsize size{};
  size.ws_row = kTerminalRows;
  size.ws_col = kTerminalColumns;
  ioctl(ours, TIOCSWINSZ, &size);
  termios mode{};
  if (input || tcgetattr(jobs, &mode) != 0) return;
  mode.c_lflag &= ~static_cast<tcflag_t>(ICANON);
  mode.c_cc[VMIN] = 0;
  mode.c_cc[VTIME] = 0;
  tcsetattr(jobs, TCSANOW, &mode);
}

bool Terminal::reopen() {
  if (jobs >= 0) close(jobs);
  jobs = open_peer(ours);
  return jobs >= 0;
}

}  // namespace waybill::shim
