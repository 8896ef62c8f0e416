#pragma once
// From decoded parameters to the engine's requests. What the table cannot say is checked here:
// which parameters exclude each other, limits that are settings, the form of an environment.

#include "base/limits.h"
#include "base/result.h"
#include "edge/params.h"
#include "edge/service.h"
#include "engine/command.h"

namespace waybill::edge {

struct CallContext {
  engine::ConnectionId connection = 0;
  const Settings& settings;
};

engine::Caller caller_of(const Params& params, const CallContext& context);

Result<engine::RunRequest> run_request(const Params& params, const CallContext& context);
Result<engine::ListRequest> list_request(const Params& params, const CallContext& context);
Result<LogsRequest> logs_request(const Params& params, const CallContext& context);
Result<engine::WaitRequest> wait_request(const Params& params, const CallContext& context);
Result<engine::StopRequest> stop_request(const Params& params, const CallContext& context);
Result<WriteRequest> write_request(const Params& params, const CallContext& context);
Result<engine::AttachRequest> attach_request(const Params& params, const CallContext& context);
Result<engine::WakeRequest> wake_request(const Params& params, const CallContext& context);
engine::CallRequest call_request(const Params& params, const CallContext& context);
engine::HostRequest host_request(const Params& params, const CallContext& context);
Result<engine::SessionWaitRequest> session_wait_request(const Params& params,
                                                        const CallContext& context);
Result<engine::TurnRequest> turn_request(core::TurnVerb verb, const Params& params,
                                         const CallContext& context);
Result<engine::InboxRequest> inbox_request(const Params& params, const CallContext& context);
Result<engine::AckRequest> ack_request(const Params& params, const CallContext& context);

engine::PruneRequest prune_request(const Params& params);
Result<engine::ReleaseOwnerRequest> release_owner_request(const Params& params);

// The settings that this answer is written with: `text_bytes` may bound a hand-over's text further.
Settings answer_settings(const Params& params, const Settings& settings);

}  // namespace waybill::edge
