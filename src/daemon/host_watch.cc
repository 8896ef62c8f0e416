#include "daemon/host_watch.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <system_error>

namespace waybill::daemon {
namespace {

constexpr int kStartField = 22;
constexpr int kFirstFieldAfterName = 3;

// When the process of this number was started, in clock ticks since boot; nullopt: there is none.
std::optional<std::uint64_t> start_of(int pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  char buffer[2048];
  const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
  if (got <= 0) return std::nullopt;
  const std::string stat(buffer, static_cast<std::size_t>(got));
  // The name may hold anything; after its last parenthesis come the other fields.
  std::size_t at = stat.rfind(')');
  if (at == std::string::npos) return std::nullopt;
  at += 2;
  for (int field = kFirstFieldAfterName; field < kStartField; ++field) {
    at = stat.find(' ', at);
    if (at == std::string::npos) return std::nullopt;
    ++at;
  }
  return std::strtoull(stat.c_str() + at, nullptr, 10);
}

}  // namespace

HostWatch::HostWatch(Loop& loop, std::function<void(engine::HostGone)> gone,
                     std::function<void(const std::string&)> warn)
    : loop_(loop), gone_(std::move(gone)), warn_(std::move(warn)) {}

void HostWatch::watch(const engine::HostGone& host) {
  hosts_.erase(host.owner);
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, host.pid, 0)));
  if (!process.valid() && errno != ESRCH && errno != EINVAL) {
    // Not known to be gone: the host keeps its lease, and loses it when another takes over.
    warn_("process " + std::to_string(host.pid) +
          " of a host cannot be watched: " + std::generic_category().message(errno));
    return;
  }
  // The descriptor first, then the check: what it is open on cannot change any more.
  if (!process.valid() || start_of(host.pid) != host.start) return gone_(host);
  const auto placed = hosts_.emplace(host.owner, Host{host, std::move(process), nullptr}).first;
  placed->second.watch = loop_.watch(placed->second.process.get());
  placed->second.watch->readable([this, owner = host.owner] { tell(owner); });
}

void HostWatch::tell(const core::Owner& owner) {
  auto node = hosts_.extract(owner);
  if (node) gone_(std::move(node.mapped().what));
}

}  // namespace waybill::daemon
