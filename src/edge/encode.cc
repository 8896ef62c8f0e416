#include "edge/encode.h"

#include <boost/json.hpp>

#include "edge/encode_values.h"
#include "edge/notice_text.h"

namespace waybill::edge {
namespace {

namespace json = boost::json;

json::array encode_jobs(const std::vector<engine::JobView>& jobs) {
  json::array out;
  for (const engine::JobView& job : jobs) out.push_back(encode_job(job));
  return out;
}

json::value encode_turn(const engine::TurnView& turn) {
  return json::object{{"id", text(turn.id.str())},
                      {"state", word(turn.state)},
                      {"stopped", turn.stopped},
                      {"begun_at", time(turn.begun_at)},
                      {"closed_at", time_or_null(turn.closed_at)}};
}

json::value encode_outstanding(const engine::Outstanding& outstanding) {
  json::array events;
  for (const EventId& id : outstanding.events) events.push_back(text(id.str()));
  return json::object{{"jobs", encode_jobs(outstanding.jobs)},
                      {"events", std::move(events)},
                      {"jobs_total", outstanding.jobs_total},
                      {"events_total", outstanding.events_total}};
}

json::array encode_texts(const std::vector<std::string>& texts) {
  json::array out;
  for (const std::string& one : texts) out.push_back(text(one));
  return out;
}

json::object encode_settings(const Settings& settings) {
  json::object out;
  for (const SettingField& field : setting_fields()) {
    out[json::string_view(field.key.data(), field.key.size())] = get_setting(settings, field);
  }
  out[json::string_view(kCgroupRootKey.data(), kCgroupRootKey.size())] = text(settings.cgroup_root);
  return out;
}

json::value encode_disk(const engine::DiskView& disk) {
  if (disk.total_bytes == 0) return nullptr;
  return json::object{{"total_bytes", disk.total_bytes},
                      {"free_bytes", disk.free_bytes},
                      {"free_space_floor_bytes", disk.floor_bytes}};
}

json::value encode_status(const engine::StatusReply& status) {
  json::object by_kind;
  for (const auto& [kind, count] : status.owed_by_kind) by_kind[kind] = count;
  json::object owners;
  for (const auto& [owner, why] : status.poisoned_owners) owners[valid_utf8(owner)] = text(why);
  json::array reachable;
  for (const SessionId& session : status.reachable) reachable.push_back(text(session.str()));
  return json::object{{"version", text(status.version)},
                      {"data_dir", text(status.data_dir)},
                      {"store", text(status.store)},
                      {"incarnation", text(status.incarnation)},
                      {"pid", status.pid},
                      {"started_at", time(status.started_at)},
                      {"running_jobs", status.running_jobs},
                      {"queued_jobs", status.queued_jobs},
                      {"sessions", status.sessions},
                      {"undelivered", status.undelivered},
                      {"owed", status.owed},
                      {"owed_by_kind", std::move(by_kind)},
                      {"poisoned", text_or_null(status.poisoned)},
                      {"poisoned_owners", std::move(owners)},
                      {"reachable", std::move(reachable)},
                      {"disk", encode_disk(status.disk)},
                      {"settings", encode_settings(status.settings)}};
}

json::value encode_pruned(const engine::PruneReply& pruned) {
  json::array jobs;
  for (const engine::PrunedJob& job : pruned.jobs) {
    jobs.push_back(json::object{{"id", text(job.job.str())},
                                {"session", text(job.session.str())},
                                {"label", text_or_null(job.label)},
                                {"status", word(job.status)},
                                {"finished_at", time_or_null(job.finished_at)},
                                {"bytes", job.bytes}});
  }
  return json::object{{"jobs", std::move(jobs)},
                      {"bytes", pruned.bytes},
                      {"dropped_events", pruned.dropped_events},
                      {"next", pruned.next ? json::value(*pruned.next) : json::value(nullptr)}};
}

json::value encode_told(const std::optional<core::Monitor>& monitor) {
  if (!monitor) return nullptr;
  return json::object{{"number", monitor->number},        {"pattern", text(monitor->pattern)},
                      {"lines", monitor->lines},          {"untold", monitor->untold},
                      {"missed_bytes", monitor->missed},  {"event", monitor->events},
                      {"events_max", monitor->events_max}};
}

json::array encode_reconciled(const std::vector<engine::ReconciledJob>& jobs) {
  json::array list;
  for (const engine::ReconciledJob& one : jobs) {
    list.push_back(json::object{{"job", text(one.job.str())},
                                {"tenant", text(one.owner.tenant.str())},
                                {"session", text(one.owner.session.str())},
                                {"status", word(one.status)}});
  }
  return list;
}

json::array encode_quarantined(const std::vector<engine::QuarantinedJob>& jobs) {
  json::array list;
  for (const engine::QuarantinedJob& one : jobs) {
    list.push_back(json::object{{"job", text(one.job.str())},
                                {"path", text(one.path)},
                                {"started", one.started},
                                {"runs", one.runs},
                                {"why", text(one.why)}});
  }
  return list;
}

struct ReplyEncoder {
  const Settings& settings;

  json::value operator()(std::monostate) const { return json::object{}; }
  json::value operator()(const engine::RunReply& reply) const {
    return json::object{{"job", encode_job(reply.job)},
                        {"delivery_path", word(reply.delivery_path)},
                        {"twin", id_or_null(reply.twin)},
                        {"replayed", reply.replayed}};
  }
  json::value operator()(const engine::JobReply& reply) const {
    return json::object{{"job", encode_job(reply.job)}, {"reported", id_or_null(reply.reported)}};
  }
  json::value operator()(const engine::JobsReply& reply) const {
    return json::object{{"jobs", encode_jobs(reply.jobs)},
                        {"timed_out", reply.timed_out},
                        {"reported", id_or_null(reply.reported)}};
  }
  json::value operator()(const engine::AttachReply& reply) const {
    return json::object{{"session", encode_session(reply.session)},
                        {"outstanding", encode_outstanding(reply.outstanding)}};
  }
  json::value operator()(const engine::SessionView& session) const {
    return json::object{{"session", encode_session(session)}};
  }
  json::value operator()(const engine::TurnReply& reply) const {
    json::array messages;
    if (reply.messages) messages.push_back(encode_hand_over(*reply.messages, settings));
    return json::object{
        {"turn", text(reply.turn.id.str())}, {"state", word(reply.turn.state)},
        {"stopped", reply.turn.stopped},     {"messages", std::move(messages)},
        {"revision", reply.revision},        {"waiting_for", encode_jobs(reply.waiting_for)},
        {"timed_out", reply.timed_out}};
  }
  json::value operator()(const engine::InboxReply& reply) const {
    return json::object{{"hand_over", reply.hand_over ? encode_hand_over(*reply.hand_over, settings)
                                                      : json::value(nullptr)}};
  }
  json::value operator()(const engine::WakeReply& reply) const {
    return json::object{{"wake", reply.wake},
                        {"replaced", reply.replaced},
                        {"timed_out", !reply.wake && !reply.replaced}};
  }
  json::value operator()(const engine::HostReply& reply) const {
    return json::object{{"session", id_or_null(reply.session)},
                        {"turn", id_or_null(reply.turn)},
                        {"announced", reply.announced},
                        {"subagent", reply.subagent}};
  }
  json::value operator()(const engine::AckReply& reply) const {
    return json::object{{"acked", encode_texts(reply.acked)},
                        {"already", encode_texts(reply.already)}};
  }
  json::value operator()(const engine::StatusReply& status) const { return encode_status(status); }
  json::value operator()(const engine::PruneReply& pruned) const { return encode_pruned(pruned); }
  json::value operator()(const engine::OwnersReply& reply) const {
    json::array owners;
    for (const engine::RetainedOwner& one : reply.owners) {
      json::array jobs;
      for (const JobId& job : one.jobs) jobs.push_back(text(job.str()));
      owners.push_back(json::object{{"tenant", text(one.owner.tenant.str())},
                                    {"session", text(one.owner.session.str())},
                                    {"kind", text(one.kind)},
                                    {"why", text(one.why)},
                                    {"since", time_or_null(one.since)},
                                    {"jobs", std::move(jobs)}});
    }
    return json::object{{"owners", std::move(owners)}};
  }
  json::value operator()(const engine::ReconcileReply& reply) const {
    return json::object{{"regressed", reply.regressed},
                        {"incarnation", text(reply.incarnation)},
                        {"rebuilt", encode_reconciled(reply.rebuilt)},
                        {"settled", encode_reconciled(reply.settled)},
                        {"ended", encode_reconciled(reply.ended)},
                        {"quarantined", encode_quarantined(reply.quarantined)}};
  }
};

struct QueryEncoder {
  json::value operator()(const engine::JobView& job) const {
    return json::object{{"job", encode_job(job)}, {"reported", nullptr}};
  }
  json::value operator()(const engine::ListReply& list) const {
    const json::value cursor = list.next_cursor ? text(*list.next_cursor) : json::value(nullptr);
    return json::object{{"jobs", encode_jobs(list.jobs)}, {"next_cursor", cursor}};
  }
  json::value operator()(const engine::SessionListReply& list) const {
    json::array sessions;
    for (const engine::SessionView& one : list.sessions) sessions.push_back(encode_session(one));
    return json::object{{"sessions", std::move(sessions)}};
  }
};

}  // namespace

json::value encode_session(const engine::SessionView& session) {
  json::array turns;
  if (session.turn) turns.push_back(encode_turn(*session.turn));
  return json::object{{"id", text(session.owner.session.str())},
                      {"session", text(session.owner.session.str())},
                      {"tenant", text(session.owner.tenant.str())},
                      {"phase", word(session.phase)},
                      {"fence", json::object{{"incarnation", text(session.incarnation)},
                                             {"number", session.fence}}},
                      {"fence_number", session.fence},
                      {"revision", session.revision},
                      {"turn", session.turn ? text(session.turn->id.str()) : json::value(nullptr)},
                      {"turns", std::move(turns)},
                      {"one_shot", session.one_shot},
                      {"client", text_or_null(session.client)},
                      {"lease", json::object{{"live", session.lease_live},
                                             {"until", time_or_null(session.lease_until)},
                                             {"host_pid", number_or_null(session.host_pid)}}},
                      {"running_jobs", session.running_jobs},
                      {"queued_jobs", session.queued_jobs},
                      {"undelivered", session.undelivered},
                      {"withheld", session.withheld},
                      {"wakes", session.wakes},
                      {"created_at", time(session.created_at)}};
}

json::value encode_hand_over(const engine::HandOver& hand_over, const Settings& settings) {
  json::array events;
  for (const engine::EventData& event : hand_over.events) {
    events.push_back(json::object{{"id", text(event.id.str())},
                                  {"type", word(event.type)},
                                  {"repeat", event.repeat},
                                  {"job", encode_job(event.job)},
                                  {"monitor", encode_told(event.monitor)},
                                  {"tail", text(tail_text(event.tail, settings))}});
  }
  return json::object{{"delivery", text(hand_over.delivery.str())},
                      {"repeat", hand_over.repeat},
                      {"mode", word(hand_over.mode)},
                      {"events", std::move(events)},
                      {"text", text(notice_text(hand_over, settings))}};
}

json::value encode_error(const Error& error) {
  const ErrorTraits& row = traits(error.code);
  return json::object{
      {"code", row.rpc_code},
      {"message", text(error.message)},
      {"data", json::object{{"code", text(row.word)}, {"retryable", row.retryable}}}};
}

std::string encode_reply(const engine::Reply& reply, const Settings& settings) {
  return to_text(std::visit(ReplyEncoder{settings}, reply));
}

std::string encode_query(const QueryReply& reply) {
  return to_text(std::visit(QueryEncoder{}, reply));
}

std::string encode_write(const WriteReply& reply) {
  return to_text(json::object{{"jobs", json::array{encode_job(reply.job)}},
                              {"written", reply.written},
                              {"closed", reply.closed},
                              {"timed_out", reply.timed_out}});
}

std::string encode_logs(const LogsReply& logs) {
  json::array gaps;
  for (const core::Gap& gap : logs.gaps) gaps.push_back(json::array{gap.from, gap.to});
  const bool as_text = logs.rendered || is_valid_utf8(logs.data);
  return to_text(json::object{{"offset", logs.offset},
                              {"next_offset", logs.next_offset},
                              {"end", logs.end},
                              {"gaps", std::move(gaps)},
                              {"data", as_text ? text(logs.data) : text(to_base64(logs.data))},
                              {"encoding", as_text ? "utf8" : "base64"},
                              {"complete", logs.complete}});
}

std::string encode_findings(const std::vector<Finding>& findings) {
  json::array lines;
  bool ok = true;
  for (const Finding& finding : findings) {
    std::string_view level = "ok";
    if (finding.level == Finding::Level::warning) level = "warning";
    if (finding.level == Finding::Level::problem) level = "problem";
    ok = ok && finding.level != Finding::Level::problem;
    lines.push_back(json::object{{"subject", text(finding.subject)},
                                 {"level", text(level)},
                                 {"message", text(finding.message)}});
  }
  return to_text(json::object{{"ok", ok}, {"findings", std::move(lines)}});
}

}  // namespace waybill::edge
