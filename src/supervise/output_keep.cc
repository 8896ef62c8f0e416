#include "supervise/output_keep.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "shim/files.h"
#include "shim/output_file.h"
#include "supervise/job_dir.h"
#include "supervise/output_reader.h"

namespace waybill::supervise {

DiskSpace disk_space(const std::string& data_dir) {
  struct statvfs disk{};
  if (::statvfs(data_dir.c_str(), &disk) != 0) return {};
  return {std::uint64_t{disk.f_blocks} * disk.f_frsize,
          std::uint64_t{disk.f_bavail} * disk.f_frsize};
}

std::uint64_t output_allocated(const std::string& data_dir, const JobId& job) {
  if (!is_job_dir_name(job.str())) return 0;
  struct stat info{};
  const std::string path = job_dir_path(data_dir, job) + "/" + shim::kOut;
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  const std::uint64_t blocks = static_cast<std::uint64_t>(info.st_blocks) * 512;
  if (blocks >= static_cast<std::uint64_t>(info.st_size)) return blocks;
  // Holes, or bytes that the file system has not found a place for yet: those count as well.
  OutputReader reader(job_dir_path(data_dir, job));
  std::uint64_t kept = reader.end();
  for (const core::Gap& gap : reader.gaps()) kept -= std::min(kept, gap.to - gap.from);
  return std::max(blocks, kept);
}

// The list of gaps stays: it is small, and says what there was.
bool remove_output(const std::string& data_dir, const JobId& job) {
  int error = 0;
  const auto dir = JobDir::open(data_dir, job, error);
  if (!dir) return error == 0;
  return unlinkat(dir->fd(), shim::kOut, 0) == 0 || errno == ENOENT;
}

std::optional<core::OutputFacts> shorten_output(const std::string& data_dir, const JobId& job,
                                                std::uint64_t cap) {
  int error = 0;
  const auto dir = JobDir::open(data_dir, job, error);
  if (!dir) return std::nullopt;
  shim::OutputFile out;
  if (out.reopen(dir->fd()) != 0) return std::nullopt;
  out.lower_cap(cap);
  out.sync();
  core::OutputFacts facts;
  facts.bytes = out.bytes();
  facts.kept_bytes = out.kept();
  for (std::size_t i = 0; i < out.gap_count(); ++i) {
    facts.gaps.push_back({out.gap(i).from, out.gap(i).to});
  }
  return facts;
}

}  // namespace waybill::supervise
