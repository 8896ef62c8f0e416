#pragma once
// Tells when a process that a host named at attach has ended, by a descriptor of it (no polling).
// Lives on the loop's thread.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "daemon/loop.h"
#include "engine/command.h"

namespace waybill::daemon {

class HostWatch {
 public:
  // `gone` is called once per watched host.
  HostWatch(Loop& loop, std::function<void(engine::HostGone)> gone,
            std::function<void(const std::string&)> warn);

  // A process that has ended, or whose number belongs to another one by now, is told at once. A
  // session is watched through its latest host only.
  void watch(const engine::HostGone& host);

  std::size_t size() const { return hosts_.size(); }

 private:
  struct Host {
    engine::HostGone what;
    UniqueFd process;
    std::unique_ptr<Watch> watch;
  };
  void tell(const core::Owner& owner);

  Loop& loop_;
  const std::function<void(engine::HostGone)> gone_;
  const std::function<void(const std::string&)> warn_;
  std::map<core::Owner, Host> hosts_;
};

}  // namespace waybill::daemon
