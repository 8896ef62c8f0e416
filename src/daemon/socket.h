#pragma once
// The daemon's unix socket, DATA/waybill.sock, mode 0600.

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/data_dir.h"

namespace waybill::daemon {

inline constexpr char kSocketName[] = "waybill.sock";

// A listening socket that appears under its name only when it accepts. Removed again on
// destruction, unless the name means another socket by then. The directory must outlive it and be
// locked by the caller.
class Listener {
 public:
  static Result<Listener> open(const DataDir& dir);
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;
  ~Listener();

  int fd() const { return fd_.get(); }

 private:
  Listener(const DataDir& dir, UniqueFd fd) : dir_(&dir), fd_(std::move(fd)) {}

  const DataDir* dir_;
  UniqueFd fd_;
  ino_t inode_ = 0;
};

// Who is at the other end, by the kernel's word.
struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
};
Result<Peer> peer_of(int fd);

// The same user as the daemon's, or root.
bool may_talk(const Peer& peer);

}  // namespace waybill::daemon
