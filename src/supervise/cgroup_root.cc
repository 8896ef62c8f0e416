#include "supervise/cgroup_root.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/sha256.h"
#include "base/unique_fd.h"
#include "shim/cgroup.h"
#include "supervise/launcher.h"

namespace waybill::supervise {
namespace {

constexpr std::string_view kJobPrefix = "job-";

std::string name_of(const std::string& data_dir) {
  Sha256 hash;
  hash.update(data_dir.data(), data_dir.size());
  char hex[65];
  hash.finish_hex(hex);
  return "waybill-" + std::string(hex, 16);
}

// Whether groups can be made there and processes moved there: "" or why not.
std::string try_root(const std::string& root, const std::string& path) {
  const UniqueFd fd(shim::open_cgroup(root.c_str()));
  if (!fd.valid()) return root + " is no cgroup of version 2 that can be opened";
  if (faccessat(fd.get(), "cgroup.procs", W_OK, AT_EACCESS) != 0) {
    return root + " cannot be written: " + strerrordesc_np(errno);
  }
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return "nothing can be made in " + root + ": " + strerrordesc_np(errno);
  }
  rmdir(path.c_str());  // the first job makes it again
  return {};
}

}  // namespace

CgroupRoot find_cgroup_root(const std::string& setting, const std::string& data_dir) {
  CgroupRoot found;
  if (setting.empty() || setting == "off") return found;
  std::string root = setting;
  const bool by_itself = setting == "auto";
  if (by_itself) {
    char own[shim::kCgroupPathMax];
    if (!shim::cgroup_dir_of(getpid(), shim::Hierarchy::version2, own)) return found;
    root = own;
  }
  const std::string path = cgroup_folder(root, data_dir);
  found.why = try_root(root, path);
  if (found.why.empty()) found.path = path;
  if (by_itself) found.why.clear();
  return found;
}

std::string cgroup_folder(const std::string& root, const std::string& data_dir) {
  return root + "/" + name_of(data_dir);
}

std::string cgroup_of_job(const std::string& root, const JobId& job) {
  return root + "/" + std::string(kJobPrefix) + job.str();
}

bool is_cgroup_of_job(const std::string& path, const std::string& data_dir, const JobId& job) {
  return path.starts_with('/') && path.ends_with(cgroup_of_job(cgroup_folder("", data_dir), job));
}

void remove_stale_cgroups(const std::string& root, const std::string& data_dir) {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kJobPrefix)) names.push_back(name.substr(kJobPrefix.size()));
  }
  for (const std::string& name : names) {
    if (!is_job_dir_name(name)) continue;
    // A supervisor that lives may have made it and not yet put its child there.
    int failed = 0;
    const std::optional<JobDir> dir = JobDir::open(data_dir, JobId(name), failed);
    if (failed != 0 || (dir && probe_lock(*dir).state != LockState::free)) continue;
    shim::remove_cgroup(cgroup_of_job(root, JobId(name)).c_str());
  }
}

}  // namespace waybill::supervise
