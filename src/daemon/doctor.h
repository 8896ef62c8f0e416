#pragma once
// What `doctor` finds about the daemon and the machine it runs on. Reads only; called on the
// reader's thread.

#include <cstdint>
#include <string>
#include <vector>

#include "base/limits.h"
#include "edge/service.h"
#include "store/database.h"
#include "supervise/output_keep.h"

namespace waybill::daemon {

struct DoctorPlace {
  std::string data_dir;
  std::string store_path;
  std::string shim_path;
  Settings settings = {};
};

std::vector<edge::Finding> examine(store::Database& reader, const DoctorPlace& place);

// Whether the daemon and its jobs outlive the caller's login, from what the system says: the
// daemon's own cgroup path, whether systemd runs the machine, whether the user lingers.
edge::Finding judge_survival(const std::string& cgroup, bool systemd, bool lingers);

// Whether the data directory's file system has room for the store and the jobs' output: a problem
// below the floor, where launches are refused, and a warning close to it.
edge::Finding judge_space(const std::string& data_dir, const supervise::DiskSpace& space,
                          std::uint64_t floor_bytes);

}  // namespace waybill::daemon
