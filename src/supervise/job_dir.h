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

// The machine is short of something at the moment: what failed so may succeed in a second.
bool is_passing(int error);

class JobDir {
 public:
  // Never creates. nullopt with `error` 0: there is no such directory. nullopt with an errno: that
  // cannot be told now.
  static std::optional<JobDir> open(const std::string& data_dir, const JobId& job, int& error);

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

  // 0: there is such a name. ENOENT: there is not. Any other errno: that cannot be told now.
  int probe(const char* name) const;
  // The whole file, at most `max` bytes. 0; ENOENT when there is no such file; ELOOP when the name
  // is not a regular file; any other errno: it cannot be read now.
  int read(const char* name, std::size_t max, std::string& bytes) const;
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
