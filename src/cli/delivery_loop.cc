#include "cli/delivery_loop.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>

#include "cli/answer.h"
#include "edge/delivery_step.h"
#include "edge/hook.h"

namespace waybill::cli {
namespace {

// As much as a client's message queue takes on a command line, too.
constexpr int kTextBytes = 16 * 1024;
// After an error of the daemon that nothing can be done about here.
constexpr Millis kPauseFirst{1000};
constexpr Millis kPauseMax{60000};

// Another host has the session, or the daemon is not one that knows these calls.
bool is_final(ErrorCode code) {
  return code == ErrorCode::fenced || code == ErrorCode::unauthenticated ||
         code == ErrorCode::forbidden || code == ErrorCode::bad_request ||
         code == ErrorCode::unsupported_version;
}

}  // namespace

struct DeliveryLoop::State {
  State(ClientOptions options, DeliveryTarget to, std::shared_ptr<edge::Adapter> with)
      : interrupt(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        target(std::move(to)),
        adapter(std::move(with)),
        daemon([&] {
          options.interrupt_fd = interrupt.get();
          return std::move(options);
        }()) {}

  json::object caller() const;
  Result<void> introduce();
  Result<bool> await_wake();
  Result<void> deliver();
  Result<edge::AfterPut> put(const edge::Probe& probe, edge::PutCall call, unsigned tries);
  bool pause(Millis most) const;
  void work();

  UniqueFd interrupt;
  DeliveryTarget target;
  std::shared_ptr<edge::Adapter> adapter;
  Client daemon;

  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
};

json::object DeliveryLoop::State::caller() const {
  json::object params{{"session", target.session}, {"host_key", target.host_key}};
  if (!target.tenant.empty()) params["tenant"] = target.tenant;
  return params;
}

// The daemon keeps the times of wakes for sessions whose client it knows. Who has told it, a hook
// for instance, has also told how to start the client again, and is not spoken over.
Result<void> DeliveryLoop::State::introduce() {
  const Result<json::object> shown = daemon.call("session.show", caller());
  if (!shown && shown.error().code != ErrorCode::not_found) return fail(shown.error());
  const bool known = shown && !text_of(object_of(*shown, "session"), "client").empty();
  if (known && target.host_pid == 0) return {};
  json::object params = caller();
  params["join"] = true;
  if (!known) params["client"] = target.client;
  if (target.host_pid > 0) params["host_pid"] = target.host_pid;
  TRY(daemon.call("session.attach", params));
  return {};
}

// False: a newer one waits instead, or this one is to end.
Result<bool> DeliveryLoop::State::await_wake() {
  Client::Waiting waiting;
  waiting.timed_out = [](const json::object& reply) { return flag_of(reply, "timed_out"); };
  TRY_ASSIGN(const json::object reply, daemon.call_waiting("wake.wait", caller(), waiting));
  return !flag_of(reply, "replaced") && flag_of(reply, "wake");
}

Result<edge::AfterPut> DeliveryLoop::State::put(const edge::Probe& probe, edge::PutCall call,
                                                unsigned tries) {
  json::object params = caller();
  params["follow"] = true;  // asking again says nothing about what was handed over before
  params["text_bytes"] = kTextBytes;
  TRY_ASSIGN(const json::object taken, daemon.call("inbox.take", params));
  const json::object& hand_over = object_of(taken, "hand_over");
  if (hand_over.empty()) return edge::AfterPut::give_up;  // somebody else had it
  const std::string text = text_of(hand_over, "text");
  const edge::PutOutcome outcome =
      call == edge::PutCall::steer ? adapter->steer(probe.turn, text) : adapter->wake(text);
  const edge::AfterPut after = edge::after_put(outcome, tries);
  const std::string delivery = text_of(hand_over, "delivery");
  json::object settled = caller();
  settled["delivery"] = delivery;
  if (after != edge::AfterPut::flush) {
    TRY(daemon.call("delivery.returned", settled));
    return after;
  }
  if (adapter->durable()) settled["durable"] = true;
  adapter->recorded(delivery);
  TRY(daemon.call("delivery.flushed", settled));
  if (adapter->durable()) {
    // The daemon may have been another one meanwhile, which had taken the offer back: by its name
    // it is acknowledged all the same, and not put to the client a second time.
    json::object named = caller();
    named["ids"] = json::array{json::value(delivery)};
    TRY(daemon.call("ack", named));
  }
  return after;
}

Result<void> DeliveryLoop::State::deliver() {
  for (unsigned tries = 1; tries <= edge::kPutTriesMax; ++tries) {
    const edge::Probe probe = adapter->probe();
    const edge::PutCall call = edge::put_call(probe);
    if (call == edge::PutCall::none) return {};
    if (!adapter->carries()) {
      (void)adapter->wake(edge::wake_prompt());  // nothing was taken, so nothing can be lost
      return {};
    }
    TRY_ASSIGN(const edge::AfterPut after, put(probe, call, tries));
    if (after != edge::AfterPut::retry) return {};
  }
  return {};
}

// False: it is to end.
bool DeliveryLoop::State::pause(Millis most) const {
  pollfd entry{interrupt.get(), POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(most.count())) == 0;
}

void DeliveryLoop::State::work() {
  Millis wait = kPauseFirst;
  bool introduced = false;
  while (true) {
    Result<void> done;
    if (!introduced) done = introduce();
    if (done) {
      introduced = true;
      const Result<bool> woken = await_wake();
      if (woken && !*woken) return;
      done = woken ? deliver() : Result<void>(fail(woken.error()));
    }
    if (daemon.interrupted()) return;
    if (done) {
      wait = kPauseFirst;
      if (!pause(Millis{0})) return;
      continue;
    }
    if (is_final(done.error().code)) return;
    if (!pause(wait)) return;
    wait = std::min(wait * 2, kPauseMax);
  }
}

void DeliveryLoop::run(const std::shared_ptr<State>& state) {
  try {
    state->work();
  } catch (const std::exception&) {
    // Without it what is pending rides on tool results and turns, as for any other client.
  }
  const std::lock_guard lock(state->mutex);
  state->ended = true;
  state->changed.notify_all();
}

DeliveryLoop::DeliveryLoop(ClientOptions options, DeliveryTarget target,
                           std::shared_ptr<edge::Adapter> adapter)
    : state_(std::make_shared<State>(std::move(options), std::move(target), std::move(adapter))),
      thread_([state = state_] { run(state); }) {}

DeliveryLoop::~DeliveryLoop() {
  ask_to_end();
  thread_.join();
}

void DeliveryLoop::ask_to_end() { ::eventfd_write(state_->interrupt.get(), 1); }

bool DeliveryLoop::await_end(Millis most) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, most, [this] { return state_->ended; });
}

}  // namespace waybill::cli
