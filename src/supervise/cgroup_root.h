#pragma once
// Where this data directory's jobs get cgroups of their own: ROOT/waybill-HASH/job-ID. ROOT is what
// the setting names or, by itself, the daemon's own cgroup of version 2 where that may be written
// (root, a delegated unit, a container with a cgroup namespace). Having none is no fault: the
// supervisor's own proof needs none. Called before the channel's thread runs.

#include <string>

#include "base/ids.h"

namespace waybill::supervise {

struct CgroupRoot {
  std::string path;  // ROOT/waybill-HASH; "" none
  std::string why;   // none, although one was asked for
};

// `setting`: "auto", "off" or the absolute path of a cgroup.
CgroupRoot find_cgroup_root(const std::string& setting, const std::string& data_dir);

// ROOT/waybill-HASH.
std::string cgroup_folder(const std::string& root, const std::string& data_dir);

// That folder's job-ID.
std::string cgroup_of_job(const std::string& root, const JobId& job);

// Whether `path` has the last two names of that, under whatever root: all that a start record may
// name, since the job itself could have written it.
bool is_cgroup_of_job(const std::string& path, const std::string& data_dir, const JobId& job);

// Removes the empty groups of jobs that no supervisor looks after any more.
void remove_stale_cgroups(const std::string& root, const std::string& data_dir);

}  // namespace waybill::supervise
