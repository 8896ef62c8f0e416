#pragma once
// Tells a client that a call of it still waits: when the output of the jobs it waits for grows or
// one of them ends, at most once a second, and at least every 15 seconds. It follows the output
// with a connection and a thread of its own, which are gone when it is destroyed.

#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "cli/client.h"
#include "cli/context.h"
#include "cli/identity.h"

namespace waybill::cli {

class McpProgress {
 public:
  // `say` is called on the thread of this object; empty: nothing is done at all.
  McpProgress(const Context& context, const Identity& identity, std::vector<std::string> jobs,
              std::function<void(std::string_view message)> say);
  ~McpProgress();
  McpProgress(const McpProgress&) = delete;
  McpProgress& operator=(const McpProgress&) = delete;

 private:
  void follow();
  // Whether it was told to end before the time had passed.
  bool ended_within(Millis time) const;

  const Context& context_;
  const Identity& identity_;
  std::vector<std::string> jobs_;
  std::function<void(std::string_view message)> say_;
  UniqueFd end_;
  std::thread thread_;
};

}  // namespace waybill::cli
