#include "cli/socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace waybill::cli {
namespace {

constexpr std::size_t kPathMax = 100;

tl::unexpected<Error> nobody(const std::string& path, int error) {
  return fail(ErrorCode::unavailable,
              "No daemon answers at " + path + " (" + strerror(error) + ").");
}

}  // namespace

Result<UniqueFd> connect_socket(const std::string& data_dir) {
  const std::string path = data_dir + "/" + kSocketName;
  UniqueFd directory;
  std::string address_path = path;
  if (path.size() > kPathMax) {
    directory.reset(::open(data_dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid()) return nobody(path, errno);
    address_path = "/proc/self/fd/" + std::to_string(directory.get()) + "/" + kSocketName;
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (address_path.size() >= sizeof(address.sun_path)) return nobody(path, ENAMETOOLONG);
  std::memcpy(address.sun_path, address_path.c_str(), address_path.size() + 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return nobody(path, errno);
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno != EINTR) return nobody(path, errno);
  }
  return fd;
}

DirectoryWatch::DirectoryWatch(const std::string& directory)
    : fd_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  if (!fd_.valid()) return;
  constexpr std::uint32_t kEvents = IN_CREATE | IN_MOVED_TO | IN_ATTRIB | IN_DELETE;
  if (::inotify_add_watch(fd_.get(), directory.c_str(), kEvents) < 0) fd_.reset();
}

void DirectoryWatch::wait(Millis most) {
  pollfd entry{fd_.get(), POLLIN, 0};  // poll ignores a descriptor below zero
  ::poll(&entry, 1, static_cast<int>(most.count()));
  if (!fd_.valid()) return;
  std::array<char, 4096> events{};
  while (::read(fd_.get(), events.data(), events.size()) > 0) {
  }
}

}  // namespace waybill::cli
