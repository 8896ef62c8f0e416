#include "daemon/data_dir.h"

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <vector>

namespace waybill::daemon {
namespace {

constexpr char kLockName[] = "daemon.lock";

std::string errno_text(int error) { return std::generic_category().message(error); }

Result<std::string> make_absolute(const std::string& path) {
  if (path.empty()) return fail(ErrorCode::bad_request, "the data directory (--data) is empty");
  if (path.front() == '/') return path;
  std::vector<char> buffer(64 * 1024);
  if (::getcwd(buffer.data(), buffer.size()) == nullptr) {
    return fail(ErrorCode::bad_request,
                "the data directory " + path +
                    " is relative and the current directory is gone; give an absolute path");
  }
  return std::string(buffer.data()) + "/" + path;
}

std::string owner_of_parent(const std::string& path) {
  const std::string parent = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
  struct stat info{};
  if (::stat(parent.c_str(), &info) != 0) return "";
  return " (" + parent + " belongs to " + describe_user(info.st_uid) + ")";
}

// Every missing part gets 0700: the daemon has umask 077 and asks for no more.
Result<void> make_directories(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0700) != 0) {
      const int error = errno;
      struct stat info{};
      if (::stat(part.c_str(), &info) != 0) {
        return fail(ErrorCode::forbidden, "cannot create the data directory " + part + ": " +
                                              errno_text(error) + owner_of_parent(part) +
                                              "; choose another with --data");
      }
    }
    if (end == std::string::npos) return {};
  }
}

char octal_digit(unsigned value) { return static_cast<char>('0' + (value & 7U)); }

std::string octal_mode(mode_t mode) {
  return {'0', octal_digit(mode >> 6U), octal_digit(mode >> 3U), octal_digit(mode)};
}

Result<void> check_private(const std::string& path, const struct stat& info) {
  if (!S_ISDIR(info.st_mode)) {
    return fail(ErrorCode::bad_request, "the data directory " + path + " is not a directory");
  }
  if (info.st_uid != ::geteuid()) {
    return fail(ErrorCode::forbidden, "the data directory " + path + " belongs to " +
                                          describe_user(info.st_uid) + ", not to " +
                                          describe_user(::geteuid()) +
                                          "; choose one of your own with --data or $WAYBILL_DATA");
  }
  if ((info.st_mode & 077U) != 0) {
    return fail(ErrorCode::forbidden,
                "the data directory " + path + " of " + describe_user(info.st_uid) +
                    " is open to other users (mode " + octal_mode(info.st_mode) +
                    "); close it with: chmod 700 " + path);
  }
  return {};
}

// 0: nobody said.
pid_t read_holder(int fd) {
  char text[32] = {};
  if (::pread(fd, text, sizeof text - 1, 0) <= 0) return 0;
  return static_cast<pid_t>(std::strtol(text, nullptr, 10));
}

// A daemon that is killed while it starts a supervisor leaves the lock to a child that is about to
// become that, for as long as this takes. The lock is then held although its holder is dead.
bool is_being_left(int fd) {
  const pid_t holder = read_holder(fd);
  return holder > 0 && ::kill(holder, 0) != 0 && errno == ESRCH;
}

}  // namespace

std::string describe_user(uid_t uid) {
  const std::string number = "uid " + std::to_string(uid);
  struct passwd entry{};
  struct passwd* found = nullptr;
  std::vector<char> buffer(16 * 1024);
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) {
    return number;
  }
  return std::string(found->pw_name) + " (" + number + ")";
}

Result<DataDir> open_data_dir(const std::string& path) {
  TRY_ASSIGN(std::string absolute, make_absolute(path));
  while (absolute.size() > 1 && absolute.back() == '/') absolute.pop_back();
  TRY(make_directories(absolute));
  UniqueFd fd(::open(absolute.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) {
    const int error = errno;
    struct stat info{};
    if (::stat(absolute.c_str(), &info) == 0) TRY(check_private(absolute, info));
    return fail(ErrorCode::forbidden,
                "cannot open the data directory " + absolute + ": " + errno_text(error));
  }
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) {
    return fail(ErrorCode::unavailable,
                "cannot look at the data directory " + absolute + ": " + errno_text(errno));
  }
  TRY(check_private(absolute, info));
  return DataDir{std::move(absolute), std::move(fd)};
}

std::string path_through_fd(const DataDir& dir, const std::string& name) {
  return "/proc/self/fd/" + std::to_string(dir.fd.get()) + "/" + name;
}

Result<DataDirLock> lock_data_dir(const DataDir& dir) {
  // Whoever removes the file by hand must not let two daemons in: the locked file must be the one
  // that is there.
  constexpr int kAttempts = 500;
  constexpr int kPauseMs = 10;
  const auto refused = [&dir](int holder_fd) {
    const pid_t holder = read_holder(holder_fd);
    const std::string who =
        holder > 0 ? "process " + std::to_string(holder) : std::string("another process");
    return fail(ErrorCode::conflict, who + " already serves " + dir.path +
                                         "; use it, or stop it with `waybill shutdown`");
  };
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    UniqueFd directory(::openat(dir.fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    UniqueFd fd(::openat(dir.fd.get(), kLockName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd.valid()) {
      return fail(ErrorCode::unavailable,
                  "cannot open " + dir.path + "/" + kLockName + ": " + errno_text(errno));
    }
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) {
        return fail(ErrorCode::unavailable,
                    "cannot lock " + dir.path + "/" + kLockName + ": " + errno_text(errno));
      }
      if (is_being_left(fd.get())) {
        ::poll(nullptr, 0, kPauseMs);
        continue;
      }
      return refused(fd.get());
    }
    // Where directories cannot be locked the file alone has to do.
    if (directory.valid() && ::flock(directory.get(), LOCK_EX | LOCK_NB) != 0 &&
        (errno == EWOULDBLOCK || errno == EINTR)) {
      if (errno == EINTR || is_being_left(fd.get())) {
        ::poll(nullptr, 0, kPauseMs);
        continue;
      }
      return refused(fd.get());
    }
    struct stat held{};
    struct stat named{};
    if (::fstat(fd.get(), &held) != 0 || ::fstatat(dir.fd.get(), kLockName, &named, 0) != 0 ||
        held.st_ino != named.st_ino || held.st_dev != named.st_dev) {
      continue;
    }
    const std::string pid = std::to_string(::getpid()) + "\n";
    if (::ftruncate(fd.get(), 0) != 0 || ::pwrite(fd.get(), pid.data(), pid.size(), 0) < 0) {
      return fail(ErrorCode::store_full,
                  "cannot write " + dir.path + "/" + kLockName + ": " + errno_text(errno));
    }
    return DataDirLock{std::move(directory), std::move(fd)};
  }
  return fail(ErrorCode::unavailable,
              dir.path + "/" + kLockName + " keeps being replaced, or held by a process that ends");
}

}  // namespace waybill::daemon
