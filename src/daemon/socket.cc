#include "daemon/socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace waybill::daemon {
namespace {

constexpr char kNewName[] = "waybill.sock.new";
constexpr int kBacklog = 1024;

Error system_error(const DataDir& dir, const char* what) {
  return Error{ErrorCode::unavailable, std::string("cannot ") + what + " " + dir.path + "/" +
                                           kSocketName + ": " +
                                           std::generic_category().message(errno)};
}

}  // namespace

Listener::Listener(Listener&& other) noexcept
    : dir_(other.dir_), fd_(std::move(other.fd_)), inode_(other.inode_) {
  other.inode_ = 0;
}

Result<Listener> Listener::open(const DataDir& dir) {
  Listener listener(dir,
                    UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
  if (!listener.fd_.valid()) return fail(system_error(dir, "create"));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = path_through_fd(dir, kNewName);
  if (path.size() >= sizeof address.sun_path) {
    return fail(ErrorCode::unavailable, "the socket's name does not fit: " + path);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  ::unlinkat(dir.fd.get(), kNewName, 0);  // left by a daemon that died between bind and rename
  if (::bind(listener.fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
      0) {
    return fail(system_error(dir, "bind"));
  }
  struct stat info{};
  if (::fchmodat(dir.fd.get(), kNewName, 0600, 0) != 0 ||
      ::fstatat(dir.fd.get(), kNewName, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
      ::listen(listener.fd_.get(), kBacklog) != 0 ||
      ::renameat(dir.fd.get(), kNewName, dir.fd.get(), kSocketName) != 0) {
    const Error error = system_error(dir, "open");
    ::unlinkat(dir.fd.get(), kNewName, 0);
    return fail(error);
  }
  listener.inode_ = info.st_ino;
  return listener;
}

Listener::~Listener() {
  if (inode_ == 0) return;
  struct stat info{};
  if (::fstatat(dir_->fd.get(), kSocketName, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
      info.st_ino == inode_) {
    ::unlinkat(dir_->fd.get(), kSocketName, 0);
  }
}

Result<Peer> peer_of(int fd) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return fail(ErrorCode::forbidden, "the caller cannot be identified");
  }
  return Peer{credentials.pid, credentials.uid};
}

bool may_talk(const Peer& peer) { return peer.uid == ::geteuid() || peer.uid == 0; }

}  // namespace waybill::daemon
