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

bool is_passing(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == EAGAIN ||
         error == EINTR || error == ENOLCK;
}

std::string job_dir_path(const std::string& data_dir, const JobId& job) {
  return data_dir + "/jobs/" + job.str();
}

std::optional<JobDir> JobDir::open(const std::string& data_dir, const JobId& job, int& error) {
  error = 0;
  if (!is_job_dir_name(job.str())) return std::nullopt;
  std::string path = job_dir_path(data_dir, job);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    // A link or a file in its place is not a job's directory, and will not become one by waiting.
    error = errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : errno;
    return std::nullopt;
  }
  return JobDir(std::move(fd), std::move(path));
}

int JobDir::probe(const char* name) const {
  return faccessat(fd_.get(), name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

int JobDir::read(const char* name, std::size_t max, std::string& bytes) const {
  bytes.clear();
  // Not blocking: a file may have been replaced by a FIFO.
  const UniqueFd file(openat(fd_.get(), name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.valid()) return errno == ENXIO ? ELOOP : errno;  // ENXIO: a socket
  struct stat info{};
  if (fstat(file.get(), &info) != 0) return errno;
  if (!S_ISREG(info.st_mode)) return ELOOP;
  bytes.assign(std::min(max, static_cast<std::size_t>(info.st_size)), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n =
        pread(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  bytes.resize(done);
  return 0;
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
