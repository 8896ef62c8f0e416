#include "edge/launch_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace waybill::edge {
namespace {

bool is_directory(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool is_program(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
}

Result<void> check_shell(const std::string& shell) {
  if (shell.front() != '/') {
    return fail(ErrorCode::bad_request,
                "Parameter \"shell\" must be an absolute path, not " + shell + ".");
  }
  if (!is_program(shell)) {
    return fail(ErrorCode::not_found,
                "shell missing: " + shell + " cannot be executed; name a program that can.");
  }
  return {};
}

}  // namespace

Result<void> check_launchable(const std::string& cwd, const std::string& shell) {
  if (!is_directory(cwd)) {
    return fail(ErrorCode::cwd_missing,
                "cwd missing: " + cwd + " is not a directory; name one that exists.");
  }
  if (::faccessat(AT_FDCWD, cwd.c_str(), X_OK, AT_EACCESS) != 0) {
    return fail(ErrorCode::cwd_missing, "cwd missing: " + cwd + " cannot be entered by this user.");
  }
  if (!shell.empty()) return check_shell(shell);
  return {};
}

}  // namespace waybill::edge
