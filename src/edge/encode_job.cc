#include <boost/json.hpp>

#include "base/clock.h"
#include "edge/encode.h"
#include "edge/encode_values.h"
#include "edge/json.h"

namespace waybill::edge {
namespace {

namespace json = boost::json;

json::value encode_exit(const core::Exit& exit) {
  const bool signaled = exit.kind == core::ExitKind::signaled;
  return json::object{{"kind", word(exit.kind)},
                      {"code", number_or_null(exit.code)},
                      {"signal", number_or_null(exit.signal)},
                      {"core", signaled ? json::value(exit.core) : json::value(nullptr)},
                      {"step", text_or_null(exit.step)},
                      {"reason", text_or_null(exit.reason)},
                      {"errno", number_or_null(exit.error)}};
}

json::value encode_stages(const core::Stages& stages) {
  if (stages.claimed.empty()) return nullptr;
  json::array out;
  for (const core::Stage& stage : stages.claimed) {
    out.push_back(json::object{{"command", text_or_null(stage.command)},
                               {"exit", encode_exit(stage.exit)},
                               {"finding", word(stage.finding)}});
  }
  return out;
}

json::value encode_earlier(const core::Stages& stages) {
  if (!stages.history_kept) return nullptr;
  json::array pipelines;
  for (const core::EarlierPipeline& one : stages.earlier) {
    pipelines.push_back(
        json::object{{"statuses", json::array(one.statuses.begin(), one.statuses.end())},
                     {"finding", word(one.finding)}});
  }
  return json::object{{"pipelines", std::move(pipelines)}, {"truncated", stages.history_truncated}};
}

json::value encode_output(const core::OutputFacts& output,
                          const std::optional<WallTime>& expired_at) {
  json::array gaps;
  for (const core::Gap& gap : output.gaps) gaps.push_back(json::array{gap.from, gap.to});
  return json::object{{"bytes", output.bytes},
                      {"kept_bytes", output.kept_bytes},
                      {"gaps", std::move(gaps)},
                      {"digest", text_or_null(output.digest)},
                      {"digest_reason", text_or_null(output.digest_reason)},
                      {"incomplete", text_or_null(output.incomplete)},
                      {"expired_at", time_or_null(expired_at)},
                      {"redactions", nullptr}};
}

json::array encode_processes(const std::vector<core::ProcessNote>& notes) {
  json::array out;
  for (const core::ProcessNote& note : notes) {
    out.push_back(json::object{{"pid", note.pid},
                               {"comm", text(note.comm)},
                               {"cmdline", text_or_null(note.cmdline)},
                               {"state", text_or_null(note.state)},
                               {"holds_output", note.holds_output},
                               {"wchan", text_or_null(note.wchan)},
                               {"reason", text_or_null(note.reason)}});
  }
  return out;
}

json::value encode_usage(const std::optional<core::UsageFacts>& usage) {
  if (!usage) return json::object{{"cpu_ms", nullptr}, {"max_rss_bytes", nullptr}};
  return json::object{{"cpu_ms", usage->cpu_ms}, {"max_rss_bytes", usage->max_rss_bytes}};
}

json::value encode_scope(const core::Scope& scope) {
  return json::object{{"tenant", text(scope.owner.tenant.str())},
                      {"session", text(scope.owner.session.str())},
                      {"turn", scope.turn ? text(scope.turn->str()) : json::value(nullptr)},
                      {"sandbox", text_or_null(scope.sandbox.str())},
                      {"generation", text_or_null(scope.generation.str())}};
}

json::array encode_monitors(const std::vector<core::Monitor>& monitors) {
  json::array out;
  for (const core::Monitor& monitor : monitors) {
    out.push_back(json::object{{"number", monitor.number},
                               {"pattern", text(monitor.pattern)},
                               {"events_max", monitor.events_max},
                               {"per_minute", monitor.per_minute},
                               {"wakes", monitor.wakes},
                               {"lines", monitor.lines},
                               {"untold", monitor.untold},
                               {"missed_bytes", monitor.missed},
                               {"read_to", monitor.read_to},
                               {"events", monitor.events}});
  }
  return out;
}

json::array encode_receipts(const std::vector<core::Receipt>& receipts) {
  json::array out;
  for (const core::Receipt& receipt : receipts) {
    out.push_back(json::object{{"seq", receipt.seq},
                               {"node_seq", receipt.node_seq},
                               {"name", word(receipt.name)},
                               {"from", word_or_null(receipt.from)},
                               {"to", word(receipt.to)},
                               {"attempt", receipt.attempt},
                               {"activation", receipt.activation},
                               {"at", time(receipt.at)},
                               {"cause", word_or_null(receipt.cause)},
                               {"actor", text_or_null(receipt.actor)},
                               {"reason", text_or_null(receipt.reason)},
                               {"scope", encode_scope(receipt.scope)}});
  }
  return out;
}

json::array encode_events(const std::vector<engine::EventView>& events) {
  json::array out;
  for (const engine::EventView& event : events) {
    const bool withheld = event.withheld != core::Withheld::no;
    out.push_back(json::object{{"id", text(event.id.str())},
                               {"type", word(event.type)},
                               {"state", word(event.state)},
                               {"tries", event.tries},
                               {"last_error", text_or_null(event.last_error)},
                               {"acked_as", word_or_null(event.acked_as)},
                               {"dropped_as", word_or_null(event.dropped_as)},
                               {"withheld", withheld ? word(event.withheld) : json::value(nullptr)},
                               {"created_at", time(event.created_at)}});
  }
  return out;
}

void add_identity(json::object& out, const engine::JobView& job) {
  const core::Scope& scope = job.scope;
  out["id"] = text(job.id.str());
  out["kind"] = word(job.kind);
  out["tenant"] = text(scope.owner.tenant.str());
  out["session"] = text(scope.owner.session.str());
  out["turn"] = scope.turn ? text(scope.turn->str()) : json::value(nullptr);
  out["sandbox"] = text_or_null(scope.sandbox.str());
  out["generation"] = text_or_null(scope.generation.str());
  out["owner"] = word(job.owner);
  out["wake"] = word(job.wake);
  out["label"] = text_or_null(job.label);
  out["command_preview"] = text(job.command_preview);
  out["shell"] = text_or_null(job.shell);
  json::array wrapper;
  for (const std::string& one : job.wrapper) wrapper.push_back(text(one));
  out["wrapper"] = job.wrapper.empty() ? json::value(nullptr) : json::value(std::move(wrapper));
  out["stdin"] = word(job.stdin_policy);
  out["pty"] = job.pty;
  out["deadline_ms"] = job.deadline ? json::value(job.deadline->count()) : json::value(nullptr);
  out["start_by"] = time_or_null(job.start_by);
  out["cwd"] = text(job.cwd);
  if (!is_valid_utf8(job.cwd)) out["cwd_base64"] = text(to_base64(job.cwd));
}

void add_ending(json::object& out, const engine::JobView& job) {
  const bool terminal = core::is_terminal(job.status);
  out["verdict"] = word_or_null(job.verdict);
  out["exit"] = terminal && job.exit ? encode_exit(*job.exit) : json::value(nullptr);
  out["stages"] = encode_stages(job.stages);
  out["stages_reason"] = word_or_null(job.stages.reason);
  out["stages_of"] = job.stages.claimed.empty()  ? json::value(nullptr)
                     : job.stages.claims_earlier ? json::value("earlier")
                                                 : json::value("last");
  out["earlier"] = encode_earlier(job.stages);
  out["cause"] = word_or_null(job.cause);
  out["actor"] = text_or_null(job.actor);
  out["reason"] = text_or_null(job.reason);
  out["proof"] = word_or_null(job.proof);
  out["ended_by_itself"] = terminal ? json::value(job.ended_by_itself) : json::value(nullptr);
}

}  // namespace

json::value encode_job(const engine::JobView& job) {
  json::object out;
  add_identity(out, job);
  out["status"] = word(job.status);
  out["stopping"] = job.stopping;
  add_ending(out, job);
  out["attempt"] = job.attempt;
  out["queue_position"] = number_or_null(job.queue_position);
  out["waiting_because"] = text_or_null(job.waiting_because);
  out["created_at"] = time(job.created_at);
  out["started_at"] = time_or_null(job.started_at);
  out["finished_at"] = time_or_null(job.finished_at);
  out["duration_ms"] = job.duration ? json::value(job.duration->count()) : json::value(nullptr);
  out["output"] = encode_output(job.output, job.output_expired_at);
  out["leftovers"] = encode_processes(job.leftovers);
  out["leftovers_kept"] =
      job.leftovers_settled ? json::value(job.leftovers_kept) : json::value(nullptr);
  out["survivors"] = encode_processes(job.survivors);
  out["usage"] = encode_usage(job.usage);
  out["monitors"] = encode_monitors(job.monitors);
  out["receipts"] = encode_receipts(job.receipts);
  out["events"] = encode_events(job.events);
  return out;
}

}  // namespace waybill::edge
