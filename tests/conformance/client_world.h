#pragma once
// An agent client in the small world: one key, several connections.

#include "world.h"

namespace waybill::test {

// The processes of one client, by connection: all present the same key.
inline constexpr engine::ConnectionId kMcp = 1;
inline constexpr engine::ConnectionId kHook = 2;
inline constexpr engine::ConnectionId kWaiter = 3;

inline engine::Caller of(engine::ConnectionId connection, const std::string& session = "s1") {
  return host(session, "k1", connection);
}

inline engine::AttachRequest client_attach(const engine::Caller& caller) {
  engine::AttachRequest request = attach(caller);
  request.client = "claude";
  return request;
}

inline engine::TurnRequest prompt(const std::string& id, core::Author author = core::Author::user) {
  engine::TurnRequest request = turn(of(kHook), core::TurnVerb::begin, id);
  request.adapter = true;
  request.supersede = true;
  request.author = author;
  return request;
}

inline engine::TurnRequest hook(core::TurnVerb verb, const std::string& id,
                                engine::ConnectionId c = kHook) {
  engine::TurnRequest request = turn(of(c), verb, id);
  request.adapter = true;
  return request;
}

inline engine::WakeRequest wake_call(engine::ConnectionId connection = kWaiter) {
  return {of(connection), Millis(600'000)};
}

inline engine::InboxRequest tool_result() {
  engine::InboxRequest request = inbox(of(kMcp));
  request.tool = true;
  return request;
}

inline engine::EventView event_of(World& world, const JobId& job) {
  const auto shown = world.ask<engine::JobReply>(engine::ShowRequest{person(), job});
  EXPECT_EQ(shown.job.events.size(), 1U);
  return shown.job.events.empty() ? engine::EventView{} : shown.job.events[0];
}

inline JobId ended_job(World& world, const engine::Caller& caller = of(kMcp)) {
  const auto made = world.ask<engine::RunReply>(command(caller, "true"));
  world.ended(made.job.id, 0);
  return made.job.id;
}

inline engine::SessionView session(World& world) {
  return world.ask<engine::SessionView>(engine::SessionShowRequest{person()});
}

inline bool woken(const std::shared_ptr<Outcome>& call) {
  return call->answered && call->result && std::get<engine::WakeReply>(*call->result).wake;
}

}  // namespace waybill::test
