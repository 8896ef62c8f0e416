#include "supervise/job_dir.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "shim/record.h"

namespace waybill::supervise {

bool is_job_dir_name(std::string_view name) {
  if (name.empty() || name.size() > 100) return false;
  for (char c : name) {
    const bool good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      c == '-' || c == '_';
    if (!good) return false;
  }
  return true;
}

std::string job_dir_path(const std::string& data_dir, const JobId& job) {
  return data_dir + "/jobs/" + job.str();
}

std::optional<JobDir> JobDir::open(const std::string& data_dir, const JobId& job) {
  if (!is_job_dir_name(job.str())) return std::nullopt;
  std::string path = job_dir_path(data_dir, job);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return std::nullopt;
  return JobDir(std::move(fd), std::move(path));
}

bool JobDir::has(const char* name) const {
  return faccessat(fd_.get(), name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

std::optional<std::string> JobDir::read(const char* name, std::size_t max) const {
  // Not blocking: a file may have been replaced by a FIFO.
  const UniqueFd file(openat(fd_.get(), name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (!file.valid() || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  std::string bytes(std::min(max, static_cast<std::size_t>(info.st_size)), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n =
        pread(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

int JobDir::write(const char* name, std::string_view bytes) const {
  const int fd = shim::reserve_record(fd_.get(), name, 0);
  if (fd < 0) return -fd;
  const UniqueFd file(fd);
  return shim::fill_record(fd, bytes);
}

int JobDir::write_durably(const char* tmp, const char* name, std::string_view bytes) const {
  return shim::write_record({fd_.get(), tmp, name}, bytes);
}

}  // namespace waybill::supervise
