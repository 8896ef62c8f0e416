#include "daemon/host_watch.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>

#include "edge/process_stat.h"

namespace waybill::daemon {
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
  const std::optional<edge::ProcessStat> stat = edge::process_stat(host.pid);
  if (!process.valid() || !stat || stat->start != host.start) return gone_(host);
  const auto placed = hosts_.emplace(host.owner, Host{host, std::move(process), nullptr}).first;
  placed->second.watch = loop_.watch(placed->second.process.get());
  placed->second.watch->readable([this, owner = host.owner] { tell(owner); });
}

void HostWatch::tell(const core::Owner& owner) {
  auto node = hosts_.extract(owner);
  if (node) gone_(std::move(node.mapped().what));
}

}  // namespace waybill::daemon
