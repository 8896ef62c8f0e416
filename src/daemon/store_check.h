#pragma once
// Reads the whole store once, on a thread and a connection of its own, while it is served: damage
// in what nothing reads for weeks is told at the next start, not when a backup is too old. A start
// does not wait for it, since its time grows with the history.

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace waybill::daemon {

class StoreCheck {
 public:
  using Told = std::function<void(const std::string&)>;

  // Both are called on its thread: `damaged` says what is wrong, `warn` why it could not be told.
  StoreCheck(std::string path, Told damaged, Told warn);
  // Breaks off what is under way.
  ~StoreCheck();
  StoreCheck(const StoreCheck&) = delete;
  StoreCheck& operator=(const StoreCheck&) = delete;

 private:
  void main(const std::string& path);

  const Told damaged_;
  const Told warn_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace waybill::daemon
