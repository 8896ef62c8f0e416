#include "edge/dispatch.h"

#include <boost/json.hpp>

#include "edge/encode.h"
#include "edge/json.h"
#include "edge/version.h"

namespace waybill::edge {
namespace {

namespace json = boost::json;

struct Call {
  Service& service;
  Answer answer;
  Settings settings;  // of the answer

  void submit(engine::Command command) {
    service.submit(std::move(command),
                   [answer = answer, settings = settings](Result<engine::Reply> reply) {
                     if (!reply) return answer(fail(std::move(reply.error())));
                     answer(encode_reply(*reply, settings));
                   });
  }
  template <class Request>
  void submit(Result<Request> request) {
    if (!request) return answer(fail(std::move(request.error())));
    submit(engine::Command(std::move(*request)));
  }
  void query(Query query) {
    service.query(std::move(query), [answer = answer](Result<QueryReply> reply) {
      if (!reply) return answer(fail(std::move(reply.error())));
      answer(encode_query(*reply));
    });
  }
};

// A terminal result read with the host key counts as told, so the engine has to see the call;
// other reads go by without it.
void show(Call& call, const Params& params, const CallContext& context) {
  engine::ShowRequest request{caller_of(params, context), JobId(params.text("job"))};
  // What the owner's host reads counts as heard, and in the session `user` the person is the host.
  const bool owner_reads = request.caller.host_key || core::is_user_session(request.caller.owner);
  if (owner_reads) return call.submit(engine::Command(std::move(request)));
  call.query(Query(std::move(request)));
}

void list(Call& call, const Params& params, const CallContext& context) {
  Result<engine::ListRequest> request = list_request(params, context);
  if (!request) return call.answer(fail(std::move(request.error())));
  call.query(Query(std::move(*request)));
}

void logs(Call& call, const Params& params, const CallContext& context) {
  Result<LogsRequest> request = logs_request(params, context);
  if (!request) return call.answer(fail(std::move(request.error())));
  call.service.logs(std::move(*request), [answer = call.answer](Result<LogsReply> reply) {
    if (!reply) return answer(fail(std::move(reply.error())));
    answer(encode_logs(*reply));
  });
}

void write(Call& call, const Params& params, const CallContext& context) {
  Result<WriteRequest> request = write_request(params, context);
  if (!request) return call.answer(fail(std::move(request.error())));
  call.service.write(std::move(*request), [answer = call.answer](Result<WriteReply> reply) {
    if (!reply) return answer(fail(std::move(reply.error())));
    answer(encode_write(*reply));
  });
}

// Which side of the revision the answer lies on says whether the time ran out.
void session_wait(Call& call, const Params& params, const CallContext& context) {
  Result<engine::SessionWaitRequest> request = session_wait_request(params, context);
  if (!request) return call.answer(fail(std::move(request.error())));
  const std::uint64_t seen = request->revision;
  call.service.submit(std::move(*request),
                      [answer = call.answer, seen,
                       &settings = call.service.settings()](Result<engine::Reply> reply) {
                        if (!reply) return answer(fail(std::move(reply.error())));
                        const auto* session = std::get_if<engine::SessionView>(&*reply);
                        if (session == nullptr) return answer(encode_reply(*reply, settings));
                        answer(to_text(json::object{{"session", encode_session(*session)},
                                                    {"timed_out", session->revision <= seen}}));
                      });
}

void backup(Call& call, const Params& params) {
  const std::string path = params.text("path");
  if (!path.starts_with('/') || path.ends_with('/')) {
    return call.answer(
        fail(ErrorCode::bad_request, "Parameter \"path\" must be the absolute path of a file."));
  }
  call.service.backup(path, [answer = call.answer](Result<BackupReply> made) {
    if (!made) return answer(fail(std::move(made.error())));
    answer(to_text(json::object{{"path", json::string_view(made->path.data(), made->path.size())},
                                {"bytes", made->bytes},
                                {"newest_receipt", made->newest_receipt}}));
  });
}

void shutdown(Call& call, const Params& params) {
  call.service.shutdown(ShutdownRequest{params.flag("stop_jobs"), params.text("reason")},
                        [answer = call.answer](Result<void> done) {
                          if (!done) return answer(fail(std::move(done.error())));
                          answer(to_text(json::object{{"shutting_down", true}}));
                        });
}

void flushed(Call& call, const Params& params, const CallContext& context) {
  call.submit(engine::Command(engine::FlushedRequest{
      caller_of(params, context), DeliveryId(params.text("delivery")), params.flag("durable")}));
}

std::string version_text() {
  return to_text(json::object{{"version", json::string_view(kVersion.data(), kVersion.size())},
                              {"protocol", kProtocol}});
}

}  // namespace

void dispatch(Method method, const Params& params, engine::ConnectionId connection,
              Service& service, Answer answer) {
  const CallContext context{connection, service.settings()};
  Call call{service, std::move(answer), answer_settings(params, service.settings())};
  switch (method) {
    case Method::hello:  // of the session (rpc_session.cc)
      return call.answer(fail(ErrorCode::bad_request, "hello was already said."));
    case Method::job_run:
      return call.submit(run_request(params, context));
    case Method::job_show:
      return show(call, params, context);
    case Method::job_list:
      return list(call, params, context);
    case Method::job_logs:
      return logs(call, params, context);
    case Method::job_wait:
      return call.submit(wait_request(params, context));
    case Method::job_stop:
      return call.submit(stop_request(params, context));
    case Method::job_write:
      return write(call, params, context);
    case Method::session_attach:
      return call.submit(attach_request(params, context));
    case Method::session_detach:
      return call.submit(engine::Command(engine::DetachRequest{caller_of(params, context)}));
    case Method::session_show:
      return call.submit(engine::Command(engine::SessionShowRequest{caller_of(params, context)}));
    case Method::session_list:
      return call.query(Query(
          SessionsRequest{TenantId(params.find_text("tenant").value_or(core::kDefaultTenant))}));
    case Method::session_wait:
      return session_wait(call, params, context);
    case Method::wake_wait:
      return call.submit(wake_request(params, context));
    case Method::host_call:
      return call.submit(engine::Command(call_request(params, context)));
    case Method::host_session:
      return call.submit(engine::Command(host_request(params, context)));
    case Method::turn_begin:
      return call.submit(turn_request(core::TurnVerb::begin, params, context));
    case Method::turn_step:
      return call.submit(turn_request(core::TurnVerb::step, params, context));
    case Method::turn_end:
      return call.submit(turn_request(core::TurnVerb::end, params, context));
    case Method::turn_stop:
      return call.submit(turn_request(core::TurnVerb::stop, params, context));
    case Method::turn_resume:
      return call.submit(turn_request(core::TurnVerb::resume, params, context));
    case Method::turn_abandon:
      return call.submit(turn_request(core::TurnVerb::abandon, params, context));
    case Method::inbox_take:
      return call.submit(inbox_request(params, context));
    case Method::delivery_flushed:
      return flushed(call, params, context);
    case Method::delivery_returned:
      return call.submit(engine::Command(engine::ReturnedRequest{
          caller_of(params, context), DeliveryId(params.text("delivery"))}));
    case Method::ack:
      return call.submit(ack_request(params, context));
    case Method::status:
      return call.submit(engine::Command(engine::StatusRequest{caller_of(params, context)}));
    case Method::doctor:
      return service.doctor([answer = call.answer](const std::vector<Finding>& findings) {
        answer(encode_findings(findings));
      });
    case Method::owner_list:
      return call.submit(engine::Command(engine::OwnersRequest{}));
    case Method::owner_release:
      return call.submit(release_owner_request(params));
    case Method::reconcile:
      return call.submit(engine::Command(engine::ReconcileRequest{}));
    case Method::backup:
      return backup(call, params);
    case Method::shutdown:
      return shutdown(call, params);
    case Method::prune:
      return call.submit(engine::Command(prune_request(params)));
    case Method::version:
      return call.answer(version_text());
  }
}

}  // namespace waybill::edge
