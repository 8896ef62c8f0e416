#include "daemon/loop.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <utility>

namespace waybill::daemon {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

class AsioWatch final : public Watch {
 public:
  AsioWatch(asio::io_context& context, int fd) : descriptor_(context, fd) {}
  ~AsioWatch() override { descriptor_.release(); }
  AsioWatch(const AsioWatch&) = delete;
  AsioWatch& operator=(const AsioWatch&) = delete;

  void readable(std::function<void()> ready) override {
    wait(asio::posix::stream_descriptor::wait_read, std::move(ready));
  }
  void writable(std::function<void()> ready) override {
    wait(asio::posix::stream_descriptor::wait_write, std::move(ready));
  }

 private:
  void wait(asio::posix::stream_descriptor::wait_type what, std::function<void()> ready) {
    // A wait that had completed when this object was destroyed still runs its handler: `alive_`
    // tells it.
    descriptor_.async_wait(
        what, [alive = std::weak_ptr<bool>(alive_), ready = std::move(ready)](error_code error) {
          if (!error && !alive.expired()) ready();
        });
  }

  asio::posix::stream_descriptor descriptor_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

class AsioTimer final : public Timer {
 public:
  AsioTimer(asio::io_context& context, Millis delay, std::function<void()> fire)
      : timer_(context, delay) {
    timer_.async_wait(
        [alive = std::weak_ptr<bool>(alive_), fire = std::move(fire)](error_code error) {
          if (!error && !alive.expired()) fire();
        });
  }

 private:
  asio::steady_timer timer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

struct Loop::Impl {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> keep_running =
      asio::make_work_guard(context);
  asio::signal_set signal_set{context};
  std::function<void(int)> on_signal;

  void next_signal() {
    signal_set.async_wait([this](error_code error, int number) {
      if (error) return;
      next_signal();
      on_signal(number);
    });
  }
};

Loop::Loop() : impl_(std::make_unique<Impl>()) {}
Loop::~Loop() = default;

void Loop::post(std::function<void()> work) { asio::post(impl_->context, std::move(work)); }

void Loop::stop() { impl_->context.stop(); }

std::unique_ptr<Watch> Loop::watch(int fd) {
  return std::make_unique<AsioWatch>(impl_->context, fd);
}

std::unique_ptr<Timer> Loop::after(Millis delay, std::function<void()> fire) {
  return std::make_unique<AsioTimer>(impl_->context, delay, std::move(fire));
}

void Loop::signals(const std::vector<int>& numbers, std::function<void(int)> on_signal) {
  impl_->on_signal = std::move(on_signal);
  for (const int number : numbers) impl_->signal_set.add(number);
  impl_->next_signal();
}

void Loop::run(const std::function<void(const std::string&)>& on_exception) {
  while (!impl_->context.stopped()) {
    try {
      impl_->context.run();
    } catch (const std::exception& error) {
      on_exception(error.what());
    } catch (...) {
      on_exception("an exception of unknown type");
    }
  }
}

}  // namespace waybill::daemon
