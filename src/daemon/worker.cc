#include "daemon/worker.h"

#include <exception>
#include <utility>

namespace waybill::daemon {

Worker::Worker(std::size_t queue_max, std::function<void(const std::string&)> on_exception)
    : queue_max_(queue_max), on_exception_(std::move(on_exception)), thread_([this] { main(); }) {}

Worker::~Worker() { stop(); }

bool Worker::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || queue_.size() >= queue_max_) return false;
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
}

void Worker::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Worker::main() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    try {
      work();
    } catch (const std::exception& error) {
      on_exception_(error.what());
    }
  }
}

}  // namespace waybill::daemon
