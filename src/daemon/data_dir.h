#pragma once
// The data directory: private to one user, served by one daemon. Nothing here depends on the
// current directory once open_data_dir has returned.

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace waybill::daemon {

struct DataDir {
  std::string path;  // absolute
  UniqueFd fd;       // O_PATH; names below it are reached through this, whatever the path's length
};

// Creates the directory (0700, parents as needed, whatever the umask) or takes the one that is
// there. Refused with `forbidden`, naming path and owner, when it belongs to somebody else or when
// others may enter it.
Result<DataDir> open_data_dir(const std::string& path);

// The path of `name` inside the directory through its descriptor, short enough for a socket address
// and valid in this process only.
std::string path_through_fd(const DataDir& dir, const std::string& name);

// Exclusive for the life of the descriptor. Somebody else has it: `conflict`, naming the process,
// and nothing is touched.
struct DataDirLock {
  UniqueFd directory;  // whoever removes or moves the file lets no second daemon in
  UniqueFd file;       // says who holds it
};
Result<DataDirLock> lock_data_dir(const DataDir& dir);

// "name (uid 1000)", or "uid 1000" when the user has no name.
std::string describe_user(uid_t uid);

}  // namespace waybill::daemon
