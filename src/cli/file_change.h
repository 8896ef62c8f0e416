#pragma once
// Changes of files that belong to somebody else: all are read and worked out first, then written,
// or none is. A write is a new file beside the old one, with its mode and owner, that takes its
// name only if the old one is still what was read. Links are followed; the link itself stays.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace waybill::cli {

struct FileChange {
  std::string path;                   // as it is named to the user
  std::string target;                 // with links followed
  std::optional<std::string> before;  // nullopt: no such file
  std::optional<std::string> after;   // nullopt: no such file
  mode_t mode = 0600;
  uid_t owner = 0;
  gid_t group = 0;

  bool is_change() const { return before != after; }
};

// "none", "create", "change" or "remove".
std::string action_of(const FileChange& change);

// The file as it is, with `after` = `before`. bad_request: not a regular file, or a link to
// nothing; forbidden: may not be read; too_large: above 64 MiB.
Result<FileChange> read_file(const std::string& path);

// Writes those that are changes; directories that are missing are made. conflict: a file is not any
// more what was read. Any error: nothing was changed, or it was changed back.
Result<void> write_changes(const std::vector<FileChange>& changes);

}  // namespace waybill::cli
