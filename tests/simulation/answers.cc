// What becomes of the calls: what consumers saw, and what an answer may say at all.

#include <algorithm>

#include "engine/access.h"
#include "simulation.h"
#include "store/clients.h"

namespace waybill::sim {
namespace {

bool is_client(store::Database& db, const core::Owner& owner) {
  const auto session = store::find_session(db, owner);
  if (!session || !*session || (*session)->client.empty()) return false;
  const auto client = store::find_client(db, owner);
  return client && *client;
}

}  // namespace

void Simulation::answered(Call& call, const Result<engine::Reply>& result) {
  const Disk::Looking looking(disk_);
  if (!result) {
    call.refused = true;
    return refused(call, result.error());
  }
  if (const auto* run = std::get_if<engine::RunReply>(&*result)) took(call, *run);
  if (const auto* job = std::get_if<engine::JobReply>(&*result)) {
    read(call, job->job, job->reported);
  }
  if (const auto* jobs = std::get_if<engine::JobsReply>(&*result)) took(call, *jobs);
  if (const auto* turn = std::get_if<engine::TurnReply>(&*result)) took(call, *turn);
  if (const auto* ack = std::get_if<engine::AckReply>(&*result)) took(call, *ack);
  if (const auto* wake = std::get_if<engine::WakeReply>(&*result)) took(call, *wake);
  if (const auto* host = std::get_if<engine::HostReply>(&*result)) took(call, *host);
  if (const auto* inbox = std::get_if<engine::InboxReply>(&*result)) {
    if (inbox->hand_over) {
      heard(call, *inbox->hand_over);
    } else if (call.deadline) {
      branches_.reach(Branch::call_timed_out);
    }
  }
  const auto* announced = std::get_if<engine::CallRequest>(&call.command);
  if (announced != nullptr && announced->by_user) {
    if (continuations_[call.owner] > 0) branches_.reach(Branch::budget_lifted);
    continuations_[call.owner] = 0;
  }
  if (std::holds_alternative<engine::DetachRequest>(call.command)) {
    branches_.reach(Branch::detached);
  }
  const auto* attach = std::get_if<engine::AttachRequest>(&call.command);
  if (attach != nullptr && attach->join) branches_.reach(Branch::joined);
  const auto* back = std::get_if<engine::ReturnedRequest>(&call.command);
  if (back != nullptr) {
    branches_.reach(Branch::given_back);
    const auto client = store::find_client(*daemon_->reader, call.owner);
    if (client && *client) {
      std::uint64_t& count = continuations_[call.owner];
      count = std::min(count, (*client)->wakes);
    }
  }
  const bool poisoned = !daemon_->engine->poisoned().empty();
  if (poisoned && !std::holds_alternative<engine::ObservedFacts>(call.command)) {
    branches_.reach(Branch::read_while_poisoned);
  }
}

void Simulation::refused(const Call& call, const Error& error) {
  note("  refused " + call.name + ": " + std::string(to_word(error.code)));
  const ErrorCode code = error.code;
  const bool poisoned = !daemon_->engine->poisoned().empty();
  const bool disk = poisoned || troubled_ || disk_.failed() > 0;
  const bool launches = std::holds_alternative<engine::RunRequest>(call.command);
  if (code == ErrorCode::fenced) return branches_.reach(Branch::fenced);
  if (code == ErrorCode::conflict) {
    return branches_.reach(launches ? Branch::key_conflict : Branch::turn_conflict);
  }
  if (code == ErrorCode::no_delivery_path) return branches_.reach(Branch::no_delivery_path);
  if (code == ErrorCode::forbidden) return branches_.reach(Branch::rule_forbids);
  if (code == ErrorCode::not_found) return branches_.reach(Branch::job_of_another);
  if (code == ErrorCode::limit_reached) {
    const bool queue = error.message.find("queued") != std::string::npos;
    return branches_.reach(queue ? Branch::limit_queued : Branch::limit_undelivered);
  }
  if (code == ErrorCode::unauthenticated && !call.key) return;
  if (code == ErrorCode::store_full && disk) return branches_.reach(Branch::refused_store_full);
  if (code == ErrorCode::unavailable && disk) {
    if (poisoned) branches_.reach(Branch::refused_while_poisoned);
    return;
  }
  // Facts speak of a job or a host, whoever owns it.
  const bool facts = damage_ && (call.connection == 0 ||
                                 std::holds_alternative<engine::HostRequest>(call.command));
  if (code == ErrorCode::state_corrupt && (damaged(call.owner) || facts || disk)) {
    return branches_.reach(Branch::owner_refused);
  }
  violated("answers", call.name + " was refused: " + error.message);
}

void Simulation::heard(const Call& call, const engine::HandOver& hand_over) {
  Delivery& delivery = deliveries_[hand_over.delivery];
  delivery.owner = call.owner;
  for (const engine::EventData& event : hand_over.events) {
    delivery.events.push_back(event.id.str());
    if (event.job.scope.owner != call.owner) {
      violated("I1", name_of(call.owner) + " was handed " + event.id.str() + " of " +
                         name_of(event.job.scope.owner));
    }
  }
  const auto found = clients_.find(call.connection);
  if (found == clients_.end() || found->second.dying) return;
  Client& client = found->second;
  if (!calm_ && random_.chance(12)) {
    branches_.reach(Branch::client_died_unread);
    note("  the client dies before it reads");
    client.dying = true;
    return;
  }
  for (const engine::EventData& event : hand_over.events) {
    note("  hears " + event.id.str() + (event.repeat ? " again" : ""));
    if (event.repeat) branches_.reach(Branch::repeat_heard);
    sights_.push_back(
        {audit::Sight::What::handed_over, event.id.str(), name_of(call.owner), event.repeat});
    heard_[call.owner].push_back(event.id.str());
  }
  delivery.seen = true;
  client.held.push_back(hand_over.delivery);
}

void Simulation::read(const Call& call, const engine::JobView& job,
                      const std::optional<DeliveryId>& reported) {
  if (job.scope.owner != call.owner) {
    violated("I1", name_of(call.owner) + " was shown job " + job.id.str() + " of " +
                       name_of(job.scope.owner));
  }
  if (!call.key && core::is_terminal(job.status)) branches_.reach(Branch::person_read);
  if (!reported) return;
  const auto found = clients_.find(call.connection);
  if (found == clients_.end() || found->second.dying) return;
  Delivery& delivery = deliveries_[*reported];
  delivery.owner = call.owner;
  delivery.seen = true;
  for (const std::string& event :
       rows("SELECT event FROM hand_over WHERE delivery = '" + reported->str() + "'")) {
    if (!event.starts_with(job.id.str() + ".")) continue;
    delivery.events.push_back(event);
    sights_.push_back({audit::Sight::What::read, event, name_of(call.owner), false});
    heard_[call.owner].push_back(event);
    note("  reads of " + event);
  }
  std::vector<DeliveryId>& held = found->second.held;
  if (std::find(held.begin(), held.end(), *reported) == held.end()) held.push_back(*reported);
}

void Simulation::took(const Call& call, const engine::JobsReply& reply) {
  const bool waits = std::holds_alternative<engine::WaitRequest>(call.command);
  if (waits) branches_.reach(reply.timed_out ? Branch::call_timed_out : Branch::wait_answered);
  for (const engine::JobView& job : reply.jobs) read(call, job, reply.reported);
}

void Simulation::took(const Call& call, const engine::RunReply& reply) {
  const JobId& job = reply.job.id;
  note("  job " + job.str() + " " + std::string(core::to_word(reply.job.status)));
  if (reply.twin) branches_.reach(Branch::twin_named);
  if (reply.replayed) branches_.reach(Branch::key_replayed);
  const auto [known, is_new] = accepted_.emplace(job, call.owner);
  if (known->second != call.owner) violated("I1", "job " + job.str() + " has two owners");
  if (reply.replayed == is_new && reply.replayed) {
    // The first answer was lost with a daemon; the key has found the job again.
  } else if (!reply.replayed && !is_new) {
    violated("ids", "job " + job.str() + " was accepted twice");
  }
  if (is_new) jobs_[call.owner].push_back(job);
  const bool promised = reply.delivery_path == core::DeliveryPath::wake;
  if (promised && core::is_user_session(call.owner)) {
    violated("answers", "a person was promised a wake");
  }
}

void Simulation::took(const Call& call, const engine::AckReply& reply) {
  if (!reply.already.empty()) branches_.reach(Branch::acked_again);
  std::vector<std::string> ids = reply.acked;
  ids.insert(ids.end(), reply.already.begin(), reply.already.end());
  for (const std::string& id : ids) {
    const auto delivery = deliveries_.find(DeliveryId(id));
    if (delivery == deliveries_.end()) {
      sights_.push_back({audit::Sight::What::acknowledged, id, name_of(call.owner), false});
      continue;
    }
    for (const std::string& event :
         rows("SELECT event FROM hand_over WHERE delivery = '" + id + "'")) {
      sights_.push_back({audit::Sight::What::acknowledged, event, name_of(call.owner), false});
    }
  }
}

void Simulation::took(const Call& call, const engine::TurnReply& reply) {
  const auto& request = std::get<engine::TurnRequest>(call.command);
  if (reply.turn.state == core::TurnState::held) branches_.reach(Branch::turn_held);
  if (request.verb == core::TurnVerb::resume) branches_.reach(Branch::turn_resumed);
  if (request.verb == core::TurnVerb::stop) branches_.reach(Branch::turn_stopped);
  if (request.verb == core::TurnVerb::abandon) branches_.reach(Branch::turn_abandoned);
  if (reply.timed_out) branches_.reach(Branch::call_timed_out);
  if (request.verb == core::TurnVerb::begin && request.author == core::Author::user) {
    if (continuations_[call.owner] > 0) branches_.reach(Branch::budget_lifted);
    continuations_[call.owner] = 0;
  }
  if (!reply.messages) return;
  if (request.verb == core::TurnVerb::end) {
    branches_.reach(Branch::turn_went_on);
    if (is_client(*daemon_->reader, call.owner)) ++continuations_[call.owner];
  }
  heard(call, *reply.messages);
}

void Simulation::took(const Call& call, const engine::WakeReply& reply) {
  if (reply.replaced) branches_.reach(Branch::wake_replaced);
  if (!reply.wake) {
    if (!reply.replaced) branches_.reach(Branch::wake_over);
    return;
  }
  note("  is woken");
  branches_.reach(Branch::wake_given);
  if (is_client(*daemon_->reader, call.owner)) ++continuations_[call.owner];
}

void Simulation::took(const Call& call, const engine::HostReply& reply) {
  if (!reply.session) return;
  for (const core::Owner& owner : owners_) {
    if (owner.tenant == call.owner.tenant && owner.session == *reply.session) return;
  }
  violated("I1", name_of(call.owner) + " was told of a session of another tenant");
}

}  // namespace waybill::sim
