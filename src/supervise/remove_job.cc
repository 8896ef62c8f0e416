#include "supervise/remove_job.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/crash_point.h"
#include "shim/files.h"
#include "supervise/job_dir.h"

namespace waybill::supervise {
namespace {

constexpr std::array<std::string_view, 3> kRecordsLast{shim::kStart, shim::kExit, shim::kFinal};

struct Entry {
  std::string name;
  std::uint64_t bytes = 0;
};

std::size_t rank(const Entry& entry) {
  const auto* found = std::ranges::find(kRecordsLast, entry.name);
  return found == kRecordsLast.end() ? 0
                                     : 1 + static_cast<std::size_t>(found - kRecordsLast.begin());
}

// In the order of removal; nullopt when the directory cannot be read.
std::optional<std::vector<Entry>> entries_of(const JobDir& dir) {
  std::vector<Entry> entries;
  DIR* stream = ::opendir(dir.path().c_str());
  if (stream == nullptr) return std::nullopt;
  while (const dirent* found = ::readdir(stream)) {
    Entry entry{found->d_name};
    if (entry.name == "." || entry.name == "..") continue;
    struct stat info{};
    if (::fstatat(dir.fd(), entry.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
      entry.bytes = static_cast<std::uint64_t>(info.st_blocks) * 512;
    }
    entries.push_back(std::move(entry));
  }
  ::closedir(stream);
  std::ranges::sort(entries, {}, rank);
  return entries;
}

bool remove_entry(const JobDir& dir, const Entry& entry) {
  if (::unlinkat(dir.fd(), entry.name.c_str(), 0) == 0 || errno == ENOENT) return true;
  if (errno != EISDIR && errno != EPERM) return false;
  std::error_code error;  // somebody made a directory there
  std::filesystem::remove_all(dir.path() + "/" + entry.name, error);
  return !error;
}

bool sync_directory(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd.valid() && ::fsync(fd.get()) == 0;
}

}  // namespace

std::uint64_t job_allocated(const std::string& data_dir, const JobId& job) {
  int error = 0;
  const auto dir = JobDir::open(data_dir, job, error);
  const auto entries = dir ? entries_of(*dir) : std::nullopt;
  std::uint64_t bytes = 0;
  if (entries) {
    for (const Entry& entry : *entries) bytes += entry.bytes;
  }
  return bytes;
}

std::optional<std::uint64_t> remove_job(const std::string& data_dir, const JobId& job) {
  int error = 0;
  const auto dir = JobDir::open(data_dir, job, error);
  if (!dir && error != 0) return std::nullopt;
  if (!dir) return 0;
  const auto entries = entries_of(*dir);
  if (!entries) return std::nullopt;
  crash_point("prune.before_files");
  std::uint64_t bytes = 0;
  for (const Entry& entry : *entries) {
    if (entry.name == shim::kFinal) crash_point("prune.between_files");
    if (!remove_entry(*dir, entry)) return std::nullopt;
    bytes += entry.bytes;
  }
  if (::rmdir(dir->path().c_str()) != 0 && errno != ENOENT) return std::nullopt;
  if (!sync_directory(data_dir + "/jobs")) return std::nullopt;
  return bytes;
}

}  // namespace waybill::supervise
