#pragma once
// The daemon's unix socket as its clients see it.

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace waybill::cli {

inline constexpr const char* kSocketName = "waybill.sock";

// A connected socket, or unavailable when nobody answers there. Paths that are too long for a
// socket address are reached through a descriptor of the directory.
Result<UniqueFd> connect_socket(const std::string& data_dir);

// Tells when something happens in a directory, so that waiting for a socket needs no sleeping.
class DirectoryWatch {
 public:
  explicit DirectoryWatch(const std::string& directory);

  // Until something is created, moved in or changed there, or `most` has passed.
  void wait(Millis most);

 private:
  UniqueFd fd_;
};

}  // namespace waybill::cli
