#pragma once
// A thread that runs jobs of one kind in order, from a bounded queue: the reader thread.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace waybill::daemon {

class Worker {
 public:
  Worker(std::size_t queue_max, std::function<void(const std::string&)> on_exception);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // From any thread, never blocks. False: the queue is full or the worker has ended, and `work`
  // will not run. `work` that lets an exception out is reported and dropped.
  bool post(std::function<void()> work);

  // Runs what is queued and ends the thread. Idempotent.
  void stop();

 private:
  void main();

  const std::size_t queue_max_;
  const std::function<void(const std::string&)> on_exception_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace waybill::daemon
