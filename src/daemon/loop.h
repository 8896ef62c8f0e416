#pragma once
// The I/O thread's event loop: descriptors, timers and posted functions; no polling. It hides Asio,
// so that only loop.cc pays for it. Everything but `post` and `stop` belongs to the thread in
// `run`, or to the starting thread before `run`.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace waybill::daemon {

// A descriptor in the loop. Each wait calls back once, unless it was cancelled by `close` or by the
// destructor. The descriptor is owned by the caller, who closes it after this object is gone.
class Watch {
 public:
  virtual ~Watch() = default;
  virtual void readable(std::function<void()> ready) = 0;
  virtual void writable(std::function<void()> ready) = 0;
};

// Fires once, unless destroyed first.
class Timer {
 public:
  virtual ~Timer() = default;
};

class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // From any thread.
  void post(std::function<void()> work);
  void stop();

  std::unique_ptr<Watch> watch(int fd);
  std::unique_ptr<Timer> after(Millis delay, std::function<void()> fire);

  // `on_signal` is called in the loop, with the signal's number, each time one of them arrives.
  void signals(const std::vector<int>& numbers, std::function<void(int)> on_signal);

  // Until `stop`. An exception that a callback lets out is handed to `on_exception`; the loop goes
  // on.
  void run(const std::function<void(const std::string&)>& on_exception);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace waybill::daemon
