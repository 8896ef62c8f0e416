#include "engine/clients.h"

#include "engine/jobs.h"
#include "engine/wake.h"

namespace waybill::engine {
namespace {

// Hooks announce a call moments before it arrives.
constexpr Millis kAnnouncedFor{600'000};

// Of a host that is no client we know by name.
const std::string kOtherClient = "other";

std::string resume_context(const core::Owner& owner) { return "resume " + owner_key(owner); }

std::string seal_resume(Work& work, const core::Owner& owner, const ResumeCommand& resume) {
  return work.sealer().seal(pack_launch({resume.cwd, resume.argv, resume.env}),
                            resume_context(owner));
}

}  // namespace

Result<std::optional<store::ClientRow>> client_of(Work& work, const core::Owner& owner) {
  TRY_ASSIGN(const store::SessionRow* session, work.find_session(owner));
  if (session == nullptr || session->client.empty()) return std::optional<store::ClientRow>();
  return store::find_client(work.db(), owner);
}

Result<void> remember_client(Work& work, const AttachRequest& request) {
  const core::Owner& owner = request.caller.owner;
  if (request.client.empty() && !request.wrapper && !request.rules && !request.resume) return {};
  TRY_ASSIGN(store::SessionRow * session, work.session(owner));
  if (session->client.empty()) session->client = kOtherClient;
  TRY_ASSIGN(std::optional<store::ClientRow> known, store::find_client(work.db(), owner));
  store::ClientRow row = known.value_or(store::ClientRow{});
  row.owner = owner;
  row.attached_at = work.now();
  if (request.wrapper) row.wrapper = *request.wrapper;
  if (request.rules) {
    row.allow = request.rules->allow;
    row.deny = request.rules->deny;
  }
  if (request.resume) {
    row.sealed_resume = seal_resume(work, owner, *request.resume);
  } else if (!request.client.empty()) {
    row.sealed_resume.clear();
  }
  return store::put_client(work.db(), row);
}

Result<ResumeCommand> open_resume(Work& work, const store::ClientRow& client) {
  TRY_ASSIGN(const std::string packed,
             work.sealer().unseal(client.sealed_resume, resume_context(client.owner)));
  TRY_ASSIGN(LaunchSecret secret, unpack_launch(packed));
  return ResumeCommand{std::move(secret.argv), std::move(secret.command), std::move(secret.env)};
}

Result<void> announce(Work& work, const Host& host, const CallRequest& request) {
  if (!host.is_host || !request.caller.host_key) {
    return fail(ErrorCode::unauthenticated, "Only a host can announce its calls.");
  }
  if (request.by_user) TRY(turn_began(work, request.caller.owner, core::Author::user));
  TRY(store::forget_calls(work.db(), work.now() - kAnnouncedFor));
  store::CallRow row;
  row.host_key_hash = host_key_hash(work, *request.caller.host_key);
  row.call = request.call;
  row.owner = request.caller.owner;
  row.turn = request.turn;
  row.subagent = request.subagent;
  row.at = work.now();
  return store::put_call(work.db(), row);
}

Result<HostReply> whose(Work& work, const HostRequest& request) {
  if (!request.caller.host_key) {
    return fail(ErrorCode::unauthenticated, "Give the host's key to ask for its session.");
  }
  const std::string hash = host_key_hash(work, *request.caller.host_key);
  HostReply reply;
  if (!request.call.empty()) {
    TRY_ASSIGN(const std::optional<store::CallRow> call,
               store::find_call(work.db(), hash, request.call));
    if (call && call->owner.tenant == request.caller.owner.tenant) {
      reply.session = call->owner.session;
      reply.turn = call->turn;
      reply.announced = true;
      reply.subagent = call->subagent;
      return reply;
    }
  }
  TRY_ASSIGN(const std::optional<core::Owner> owner,
             store::session_of_host(work.db(), request.caller.owner.tenant, hash));
  if (!owner) return reply;
  reply.session = owner->session;
  TRY_ASSIGN(const std::optional<store::TurnRow> turn, store::find_open_turn(work.db(), *owner));
  if (turn && !turn->stopped) reply.turn = turn->id;
  return reply;
}

}  // namespace waybill::engine
