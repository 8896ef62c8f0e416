#pragma once
// What the programs of an agent client (its MCP process, its hooks) tell of the host that they
// belong to: sandbox and rules of the session, how to start it again, whose a tool call is.

#include "engine/access.h"
#include "engine/work.h"
#include "store/clients.h"

namespace waybill::engine {

// The client's row; nullopt for a session whose host has told nothing of the kind.
Result<std::optional<store::ClientRow>> client_of(Work& work, const core::Owner& owner);

// In the transaction of an attach.
Result<void> remember_client(Work& work, const AttachRequest& request);

Result<ResumeCommand> open_resume(Work& work, const store::ClientRow& client);

// A hook announces a tool call.
Result<void> announce(Work& work, const Host& host, const CallRequest& request);

// The MCP process asks whose it is.
Result<HostReply> whose(Work& work, const HostRequest& request);

}  // namespace waybill::engine
