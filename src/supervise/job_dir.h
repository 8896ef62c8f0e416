#pragma once
// One job's directory below DATA/jobs: names, reading and durable writing of its files. Job ids are
// checked before they become part of a path. No state but a descriptor; used by one thread at a
// time.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace waybill::supervise {

// Letters, digits, '-' and '_' only, at most 100 bytes: safe as a file name everywhere.
bool is_job_dir_name(std::string_view name);

// DATA/jobs/ID. Precondition: is_job_dir_name(job).
std::string job_dir_path(const std::string& data_dir, const JobId& job);

class JobDir {
 public:
  // Never creates. nullopt when there is no such directory (or it cannot be opened).
  static std::optional<JobDir> open(const std::string& data_dir, const JobId& job);

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

  bool has(const char* name) const;
  // The whole file, at most `max` bytes. nullopt when it is absent or cannot be read.
  std::optional<std::string> read(const char* name, std::size_t max) const;
  // 0 or errno. The file has mode 0600.
  int write(const char* name, std::string_view bytes) const;
  // Written, fsynced, renamed, the directory fsynced. 0 or errno.
  int write_durably(const char* tmp, const char* name, std::string_view bytes) const;

 private:
  JobDir(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;
};

}  // namespace waybill::supervise
