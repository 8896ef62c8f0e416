#include "cli/file_change.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/unique_fd.h"

namespace waybill::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFileBytesMax = 64 * 1024 * 1024;

tl::unexpected<Error> cannot(const std::string& what, const std::string& path, int number) {
  const bool denied = number == EACCES || number == EPERM || number == EROFS;
  const bool full = number == ENOSPC || number == EDQUOT;
  return fail(denied ? ErrorCode::forbidden
              : full ? ErrorCode::store_full
                     : ErrorCode::unavailable,
              "Cannot " + what + " " + path + ": " + std::generic_category().message(number) +
                  "; nothing was changed.");
}

Result<std::string> read_all(int fd, const std::string& path) {
  std::string text;
  char buffer[64 * 1024];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot("read", path, errno);
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kFileBytesMax) {
      return fail(ErrorCode::too_large, path + " is larger than 64 MiB; nothing was changed.");
    }
  }
}

Result<void> write_all(int fd, const std::string& text, const std::string& path) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t put = ::write(fd, text.data() + at, text.size() - at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return cannot("write", path, errno);
    at += static_cast<std::size_t>(put);
  }
  return {};
}

std::string parent_of(const std::string& path) { return fs::path(path).parent_path().string(); }

// The name becomes durable with its directory.
void sync_directory(const std::string& path) {
  const UniqueFd fd(::open(parent_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.valid()) ::fsync(fd.get());
}

// A new file beside the target; removed unless it got the target's name.
class Draft {
 public:
  explicit Draft(const FileChange& change) : change_(change) {}
  ~Draft() {
    if (!name_.empty()) ::unlink(name_.c_str());
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  Draft(Draft&& other) noexcept
      : change_(std::move(other.change_)), name_(std::exchange(other.name_, "")) {}
  Draft& operator=(Draft&&) = delete;

  const FileChange& change() const { return change_; }

  Result<void> write(const std::string& text) {
    std::string name = change_.target + ".waybill-XXXXXX";
    const UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));
    if (!fd.valid()) return cannot("write beside", change_.path, errno);
    name_ = name;
    TRY(write_all(fd.get(), text, change_.path));
    struct stat now{};
    if (::fstat(fd.get(), &now) != 0) return cannot("write beside", change_.path, errno);
    if (change_.before && (now.st_uid != change_.owner || now.st_gid != change_.group) &&
        ::fchown(fd.get(), change_.owner, change_.group) != 0) {
      return cannot("keep the owner of", change_.path, errno);
    }
    if (::fchmod(fd.get(), change_.mode & 07777U) != 0) {
      return cannot("keep the mode of", change_.path, errno);
    }
    if (::fsync(fd.get()) != 0) return cannot("write beside", change_.path, errno);
    return {};
  }

  Result<void> take_name(bool replace) {
    const char* from = name_.c_str();
    const char* to = change_.target.c_str();
    // Without replacing, a file that came meanwhile is not lost. Not every file system can do it.
    int done = replace ? -1 : ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
    if (replace || (done != 0 && errno == EINVAL)) done = ::rename(from, to);
    if (done != 0 && errno == EEXIST) {
      return fail(ErrorCode::conflict, change_.path +
                                           " was changed by somebody else meanwhile; run the "
                                           "command again. Nothing was changed.");
    }
    if (done != 0) return cannot("replace", change_.path, errno);
    name_.clear();
    sync_directory(change_.target);
    return {};
  }

 private:
  FileChange change_;
  std::string name_;
};

Result<void> check_unchanged(const FileChange& change) {
  TRY_ASSIGN(const FileChange now, read_file(change.path));
  if (now.before == change.before && now.target == change.target && now.mode == change.mode &&
      now.owner == change.owner && now.group == change.group) {
    return {};
  }
  return fail(ErrorCode::conflict,
              change.path +
                  " was changed by somebody else meanwhile; run the command again. Nothing was "
                  "changed.");
}

Result<void> perform(Draft& draft) {
  const FileChange& change = draft.change();
  TRY(check_unchanged(change));
  if (change.after) return draft.take_name(change.before.has_value());
  if (::unlink(change.target.c_str()) != 0) return cannot("remove", change.path, errno);
  sync_directory(change.target);
  return {};
}

// As far as it goes: the first error is the one that is told.
void take_back(const FileChange& change) {
  if (!change.before) {
    ::unlink(change.target.c_str());
    return;
  }
  Draft draft(change);
  if (draft.write(*change.before)) static_cast<void>(draft.take_name(true));
}

Result<std::string> target_of(const std::string& path) {
  std::error_code error;
  if (!fs::is_symlink(fs::symlink_status(path, error))) return path;
  const fs::path real = fs::canonical(path, error);
  if (error) {
    return fail(ErrorCode::bad_request, path +
                                            " is a link to a file that is not there; make the file "
                                            "or remove the link. Nothing was changed.");
  }
  return real.string();
}

}  // namespace

std::string action_of(const FileChange& change) {
  if (!change.is_change()) return "none";
  if (!change.before) return "create";
  return change.after ? "change" : "remove";
}

Result<FileChange> read_file(const std::string& path) {
  FileChange out;
  out.path = path;
  TRY_ASSIGN(out.target, target_of(path));
  const UniqueFd fd(::open(out.target.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) {
    if (errno == ENOENT) return out;
    return cannot("read", path, errno);
  }
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return cannot("read", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::bad_request, path + " is not a file; nothing was changed.");
  }
  out.mode = info.st_mode;
  out.owner = info.st_uid;
  out.group = info.st_gid;
  TRY_ASSIGN(out.before, read_all(fd.get(), path));
  out.after = out.before;
  return out;
}

Result<void> write_changes(const std::vector<FileChange>& changes) {
  std::vector<Draft> drafts;
  for (const FileChange& change : changes) {
    if (!change.is_change()) continue;
    if (!change.before) {
      std::error_code error;
      fs::create_directories(parent_of(change.target), error);
      if (error) return cannot("make the directory of", change.path, error.value());
    }
    drafts.emplace_back(change);
    if (change.after) TRY(drafts.back().write(*change.after));
  }
  for (const Draft& draft : drafts) TRY(check_unchanged(draft.change()));
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    if (Result<void> done = perform(drafts[i]); !done) {
      for (; i > 0; --i) take_back(drafts[i - 1].change());
      return done;
    }
  }
  return {};
}

}  // namespace waybill::cli
