#include "edge/method.h"

#include "base/ids.h"
#include "edge/json.h"

namespace waybill::edge {
namespace {

using E = ErrorCode;
using Params = std::vector<Param>;

constexpr std::uint64_t kDayMs = 86'400'000;
constexpr std::uint64_t kPathBytesMax = 4096;
constexpr std::uint64_t kWordsMax = 1000;

Param text(std::string_view name, std::uint64_t max, std::string_view description) {
  return {name, ParamKind::text, false, 0, max, {}, description};
}
Param id(std::string_view name, std::string_view description) {
  return {name, ParamKind::id, false, 1, kIdBytesMax, {}, description};
}
Param number(std::string_view name, std::uint64_t min, std::uint64_t max,
             std::string_view description) {
  return {name, ParamKind::number, false, min, max, {}, description};
}
Param flag(std::string_view name, std::string_view description) {
  return {name, ParamKind::flag, false, 0, 0, {}, description};
}
Param list(std::string_view name, ParamKind kind, std::uint64_t max, std::string_view description) {
  return {name, kind, false, 0, max, {}, description};
}
Param bytes(std::string_view name, std::uint64_t max, std::string_view description) {
  return {name, ParamKind::bytes, false, 0, max, {}, description};
}
Param any_bytes(std::string_view name, std::uint64_t max, std::string_view description) {
  return {name, ParamKind::any_bytes, false, 0, max, {}, description};
}
Param word(std::string_view name, std::vector<std::string_view> words,
           std::string_view description) {
  return {name, ParamKind::word, false, 0, 0, std::move(words), description};
}
Param required(Param param) {
  param.required = true;
  return param;
}

Param job_param() { return required(id("job", "The job's id.")); }
Param text_bytes_param() {
  return number("text_bytes", 1024, 1024 * 1024,
                "Most bytes of a hand-over's text; default and upper limit: hand_over_bytes.");
}
Param wait_param() {
  return number("timeout_ms", 1, kDayMs,
                "How long to wait; default and upper limit are the settings wait_timeout and "
                "wait_timeout_max.");
}

// Who calls. Every method that acts in a session takes these.
Params with_caller(Params params) {
  params.push_back(id("tenant", "The tenant; `local` when left out."));
  params.push_back(id("session", "The session to act in; `user` when left out."));
  params.push_back(id("host_key",
                      "The host's capability. Only a call that carries it may begin turns, take, "
                      "acknowledge, and count as the owner reading."));
  return params;
}

MethodInfo run_method() {
  return {
      Method::job_run,
      "job.run",
      "Accepts a command job. When it answers, owner, scope and launch are durable.",
      with_caller(
          {text("command", kLineBytesMax, "Shell text. One of the four ways to say the command."),
           bytes("command_base64", kLineBytesMax, "The same for text that is not valid UTF-8."),
           list("argv", ParamKind::text_list, kLineBytesMax,
                "Program and arguments, executed without a shell."),
           list("argv_base64", ParamKind::bytes_list, kLineBytesMax,
                "The same for words that are not valid UTF-8."),
           text("shell", kPathBytesMax,
                "Absolute path of the shell for `command`; /bin/bash when left out."),
           list("wrapper", ParamKind::text_list, kPathBytesMax,
                "Program and arguments that the command is run through, inside the session's own "
                "wrapper."),
           text("cwd", kPathBytesMax, "Absolute working directory. It or cwd_base64 is required."),
           bytes("cwd_base64", kPathBytesMax, "The same for a path that is not valid UTF-8."),
           list("env", ParamKind::text_map, kLineBytesMax,
                "The job's whole environment; nothing of the daemon's is added. Left out: empty."),
           any_bytes(
               "env_base64", kLineBytesMax,
               "The same as one block, NAME=value entries separated by NUL bytes, byte for byte."),
           id("turn", "The open turn that the job belongs to."),
           text("label", 1000, "A short name for people."),
           number("deadline_ms", 1, 366 * kDayMs, "From the start of the attempt, monotonic."),
           number("start_within_ms", 1, 366 * kDayMs,
                  "Not started any more when still queued this long after it was accepted."),
           number("grace_ms", 0, kDayMs, "Between TERM and KILL; default: setting stop_grace."),
           number("umask", 0, 0777,
                  "The job's file mode creation mask, a number; default 18 (022)."),
           number("cap_bytes", 4096, std::uint64_t{1} << 40,
                  "Most output bytes kept; default: setting output_cap_bytes."),
           word("owner", {"session", "turn"}, "Whether the job outlives its turn; `session`."),
           word("wake", {"always", "on_failure", "never"},
                "Whether its end wakes an idle host; otherwise it waits for the next turn; "
                "`always`."),
           word("leftovers", {"kill", "keep"},
                "What becomes of processes that outlive the command; `kill`."),
           flag("stdin", "Leave standard input open for `job.write`; otherwise it is empty."),
           flag("pty",
                "Give the command a terminal of its own for its output, and with `stdin` "
                "for its input."),
           list("monitors", ParamKind::text_list, 1000,
                "Patterns (RE2): a line of output that one fits is told while the job runs; an "
                "empty one fits every line."),
           number("monitor_events_max", 1, 1000,
                  "Most events of each of them; default: setting monitor_events_max."),
           number("monitor_per_minute", 1, 600,
                  "Most events a minute: what fits in between goes together; default: setting "
                  "monitor_per_minute."),
           flag("monitor_wakes", "They wake an idle host; otherwise they join the next turn."),
           id("key", "Idempotency key: the same call again answers with the original job.")}),
      "`{\"job\": job object, \"delivery_path\": \"this_turn\" | \"wake\" | \"next_attach\", "
      "\"twin\": id of an identical running job or null, \"replayed\": bool}`",
      {E::cwd_missing, E::too_large, E::conflict, E::no_delivery_path, E::forbidden,
       E::limit_reached, E::store_full, E::owner_unrecoverable, E::state_corrupt, E::fenced}};
}

void add_job_methods(std::vector<MethodInfo>& out) {
  out.push_back(run_method());
  out.push_back({Method::job_show,
                 "job.show",
                 "One job with its receipts and deliveries.",
                 with_caller({job_param()}),
                 "`{\"job\": job object, \"reported\": delivery to confirm with "
                 "`delivery.flushed`, or null}`",
                 {E::not_found, E::fenced}});
  out.push_back(
      {Method::job_list,
       "job.list",
       "The session's jobs, newest first.",
       with_caller({{"statuses",
                     ParamKind::word_list,
                     false,
                     0,
                     6,
                     {"queued", "running", "waiting_on_user", "succeeded", "failed", "stopped"},
                     "Only jobs in these statuses; left out: all."},
                    flag("all_sessions", "Jobs of every session of the tenant."),
                    number("limit", 1, 500, "Most jobs in one answer; 50."),
                    text("cursor", 1000, "`next_cursor` of the answer before.")}),
       "`{\"jobs\": [job object without receipts and events], \"next_cursor\": text or null}`",
       {}});
  out.push_back(
      {Method::job_logs,
       "job.logs",
       "Output of a job from an absolute byte offset.",
       with_caller(
           {job_param(), number("offset", 0, INT64_MAX, "First byte; 0 when left out."),
            number("bytes", 1, 1024 * 1024, "Most raw bytes in one answer; 65536."),
            number("tail_lines", 0, 1'000'000, "Instead of offset: about this many last lines."),
            flag("raw", "The bytes themselves rather than rendered text."),
            number("wait_ms", 1, kDayMs,
                   "When there is nothing new and the job is not terminal: answer when there is, "
                   "at most after this.")}),
       "`{\"offset\", \"next_offset\", \"end\": offset after the last byte so far, \"gaps\": "
       "[[from, to]], \"data\", \"encoding\": \"utf8\" | \"base64\", \"complete\": terminal and "
       "nothing left}`",
       {E::not_found, E::unavailable}});
  out.push_back({Method::job_wait,
                 "job.wait",
                 "Answers when the jobs are terminal.",
                 with_caller({required(list("jobs", ParamKind::text_list, kWordsMax, "Job ids.")),
                              flag("any", "One terminal job is enough."), wait_param()}),
                 "`{\"jobs\": [job object] in the order asked, \"timed_out\": bool, \"reported\": "
                 "delivery or null}`",
                 {E::not_found, E::fenced}});
  out.push_back(
      {Method::job_stop,
       "job.stop",
       "Records the wish to stop, durably, then stops. A finished job answers with its result.",
       with_caller({list("jobs", ParamKind::text_list, kWordsMax, "Job ids."),
                    flag("all", "Every unfinished job of the session."),
                    text("reason", 1000, "Kept on the job and in its receipt."),
                    flag("wait", "Answer when every one is terminal."), wait_param()}),
       "`{\"jobs\": [job object], \"timed_out\": bool, \"reported\": delivery or null}`",
       {E::not_found, E::fenced}});
  out.push_back(
      {Method::job_write,
       "job.write",
       "Writes to the standard input of a job that was started with `stdin`. Waits for the job's "
       "start and for room; bytes that were taken are never taken back, and an error means that "
       "none of this call's were.",
       with_caller({job_param(), text("data", kInputBytesMax, "Text. Or:"),
                    any_bytes("data_base64", kInputBytesMax, "Any bytes."),
                    flag("close", "Afterwards: the command reads the rest and then the end."),
                    wait_param()}),
       "`{\"jobs\": [job object], \"written\": how many bytes were taken, \"closed\": nothing more "
       "can be written, \"timed_out\": bool}`",
       {E::not_found, E::already_terminal, E::conflict, E::limit_reached, E::fenced}});
}

void add_session_methods(std::vector<MethodInfo>& out) {
  const std::string_view session =
      "`{\"session\": session object, \"outstanding\": {\"jobs\", \"events\", \"jobs_total\", "
      "\"events_total\"}}`";
  out.push_back(
      {Method::session_attach,
       "session.attach",
       "Takes the session over for the host of this key; an older host is fenced. The same key "
       "joins.",
       with_caller(
           {number("host_pid", 1, 4194304,
                   "The lease lasts as long as this process (its start time is noted)."),
            number("lease_ms", 1000, 30 * kDayMs, "Lease after a turn's last call."),
            flag("one_shot", "The host will not return after its turn."),
            flag("join", "Only if no other host is there; `fenced` otherwise."),
            id("client", "Which program the host is: `claude`, `codex` …"),
            list("wrapper", ParamKind::text_list, kPathBytesMax,
                 "Program and arguments that every command of the session is run through; "
                 "replaces what was known."),
            list("allow", ParamKind::text_list, kPathBytesMax,
                 "Patterns (`*`, `?`); a command must match one. Goes with `deny`."),
            list("deny", ParamKind::text_list, kPathBytesMax,
                 "Patterns; a command that matches one is `forbidden`."),
            list("resume_argv", ParamKind::text_list, kLineBytesMax,
                 "How to start the client again when it is closed and something waits; "
                 "left out with `client`: it is never started."),
            text("resume_cwd", kPathBytesMax, "Where it is started."),
            any_bytes("resume_env_base64", kLineBytesMax, "Its environment, NUL-separated.")}),
       session,
       {E::fenced, E::owner_unrecoverable, E::state_corrupt}});
  out.push_back({Method::session_detach,
                 "session.detach",
                 "The host has left the session: its lease ends, its open turn is given up.",
                 with_caller({}),
                 "`{}`",
                 {E::unauthenticated, E::fenced}});
  out.push_back({Method::session_show,
                 "session.show",
                 "The session as it stands.",
                 with_caller({}),
                 "`{\"session\": session object}`",
                 {E::not_found}});
  out.push_back({Method::session_list,
                 "session.list",
                 "All sessions of the tenant.",
                 {id("tenant", "The tenant; `local` when left out.")},
                 "`{\"sessions\": [session object]}`",
                 {}});
  out.push_back({Method::session_wait,
                 "session.wait",
                 "Answers when the revision is above the given one.",
                 with_caller({required(number("revision", 0, INT64_MAX, "The last revision seen.")),
                              wait_param()}),
                 "`{\"session\": session object, \"timed_out\": bool}`",
                 {E::not_found}});
}

void add_client_methods(std::vector<MethodInfo>& out) {
  out.push_back({Method::wake_wait,
                 "wake.wait",
                 "Answers when the host should begin a turn: something that wakes is pending and "
                 "no turn is open, or the open one has taken nothing for `unheard_grace`. Hands "
                 "nothing over. One call waits at a time; a newer one replaces it.",
                 with_caller({wait_param()}),
                 "`{\"wake\": bool, \"replaced\": bool, \"timed_out\": bool}`",
                 {E::unauthenticated, E::fenced}});
  out.push_back(
      {Method::host_call,
       "host.call",
       "A client's hook tells whose a tool call is, before the call arrives.",
       with_caller({required(id("call", "The client's id of the call.")),
                    id("turn", "The turn it was made in."),
                    flag("subagent", "Made inside a subagent, whose context is not the session's."),
                    flag("by_user", "In a turn that a user caused: lifts the bound.")}),
       "`{}`",
       {E::unauthenticated, E::fenced}});
  out.push_back(
      {Method::host_session,
       "host.session",
       "Which session and turn a host's tool call belongs to: as announced, else the "
       "session it attached last.",
       {id("tenant", "The tenant; `local` when left out."),
        required(id("host_key", "The host's capability.")),
        id("call", "The client's id of the call.")},
       "`{\"session\": id or null, \"turn\": id or null, \"announced\": bool, \"subagent\": bool}`",
       {E::unauthenticated}});
}

MethodInfo turn_method(Method method, std::string_view name, std::string_view summary, bool waits) {
  Params params{required(id("turn", "The turn's id, chosen by the host.")),
                flag("adapter", "A client's hook asks: only the turn's end acknowledges."),
                text_bytes_param()};
  if (method == Method::turn_end) {
    params.push_back(flag("over",
                          "The host does not go on, whatever is pending: hand nothing over, close; "
                          "jobs of the turn become the session's."));
  }
  if (method == Method::turn_begin) {
    params.push_back(flag("supersede", "Whatever turn this host had open is over."));
    params.push_back(word("author", {"user", "job", "host"}, "Who caused the turn; `user`."));
  }
  if (waits) {
    params.push_back(
        flag("wait", "Answer when the turn is closed or there is something to hand over."));
    params.push_back(wait_param());
  }
  return {method,
          name,
          summary,
          with_caller(std::move(params)),
          "`{\"turn\": id, \"state\": \"open\" | \"held\" | \"closed\", \"stopped\": bool, "
          "\"messages\": [hand-over], \"revision\", \"waiting_for\": [job object], "
          "\"timed_out\": bool}`",
          {E::conflict, E::fenced, E::not_owner, E::not_found, E::limit_reached}};
}

void add_turn_methods(std::vector<MethodInfo>& out) {
  out.push_back(turn_method(Method::turn_begin, "turn.begin",
                            "Opens a turn and takes what is pending for it.", false));
  out.push_back(turn_method(Method::turn_step, "turn.step",
                            "A step boundary: takes what has come in meanwhile.", false));
  out.push_back(turn_method(Method::turn_end, "turn.end",
                            "Ends the turn, or says what it still waits for (`held`) or has to "
                            "read first (`messages`).",
                            true));
  out.push_back(turn_method(Method::turn_stop, "turn.stop",
                            "The user stopped the turn: its own jobs are stopped, what it had "
                            "not acknowledged is withheld.",
                            true));
  out.push_back(turn_method(Method::turn_resume, "turn.resume",
                            "Goes on with an open turn under a new fence.", false));
  out.push_back(turn_method(Method::turn_abandon, "turn.abandon",
                            "Gives the turn up; its jobs and events become the session's.", false));
}

void add_delivery_methods(std::vector<MethodInfo>& out) {
  out.push_back(
      {Method::inbox_take,
       "inbox.take",
       "Takes what is pending for the session's host.",
       with_caller({flag("follow",
                         "This connection keeps asking; only `ack` or a turn's end "
                         "acknowledges."),
                    flag("no_ack", "Pending again when the connection closes."),
                    word("path", {"inbox", "tool"},
                         "`tool`: it rides on the result of a tool call, and the next such call "
                         "acknowledges; `inbox` when left out."),
                    text_bytes_param(),
                    number("timeout_ms", 1, kDayMs, "Wait this long; left out: do not wait.")}),
       "`{\"hand_over\": {\"delivery\", \"repeat\", \"mode\", \"events\": [{\"id\", \"type\", "
       "\"repeat\", \"job\", \"tail\"}], \"text\"} or null}`",
       {E::fenced, E::not_owner}});
  out.push_back(
      {Method::delivery_flushed,
       "delivery.flushed",
       "The answer that carried this delivery has been written out by the client.",
       with_caller({required(id("delivery", "From a hand-over, or `reported` of an answer.")),
                    flag("durable",
                         "It is in a queue of the host's that survives the host; acknowledged.")}),
       "`{}`",
       {E::not_found, E::fenced}});
  out.push_back({Method::delivery_returned,
                 "delivery.returned",
                 "This hand-over will not be printed: what it carried is pending again.",
                 with_caller({required(id("delivery", "From a hand-over."))}),
                 "`{}`",
                 {E::not_found, E::fenced}});
  out.push_back({Method::ack,
                 "ack",
                 "Acknowledges events or deliveries, all or none.",
                 with_caller({required(
                     list("ids", ParamKind::text_list, kWordsMax, "Event or delivery ids."))}),
                 "`{\"acked\": [id], \"already\": [id]}`",
                 {E::not_found, E::fenced, E::not_owner}});
}

void add_node_methods(std::vector<MethodInfo>& out) {
  out.push_back({Method::status,
                 "status",
                 "This daemon: counts, what is owed, settings.",
                 with_caller({}),
                 "`{\"version\", \"data_dir\", \"store\", \"incarnation\", \"pid\", "
                 "\"started_at\", \"running_jobs\", \"queued_jobs\", \"sessions\", "
                 "\"undelivered\", \"owed\", \"owed_by_kind\", \"poisoned\", "
                 "\"poisoned_owners\", \"reachable\": sessions whose idle host can be woken now, "
                 "\"disk\": {\"total_bytes\", \"free_bytes\", \"free_space_floor_bytes\": the "
                 "one in force} | null, \"settings\"}`; durations in ms",
                 {}});
  out.push_back({Method::doctor,
                 "doctor",
                 "What this daemon finds about itself.",
                 {},
                 "`{\"ok\": bool, \"findings\": [{\"subject\", \"level\": \"ok\" | \"warning\" | "
                 "\"problem\", \"message\"}]}`",
                 {}});
  out.push_back({Method::owner_list,
                 "owner.list",
                 "Owners that are refused, or whose stop is not confirmed, and what is retained.",
                 {},
                 "`{\"owners\": [{\"tenant\", \"session\", \"kind\": \"owner_unrecoverable\" | "
                 "\"state_corrupt\" | \"stop_stuck\", \"why\", \"since\", \"jobs\": [id]}]}`",
                 {}});
  out.push_back(
      {Method::owner_release,
       "owner.release",
       "Gives up what cannot be recovered of a session, and stops of it that cannot be "
       "confirmed: those jobs end `failed`, exit unknown, unproven.",
       {id("tenant", "The tenant; `local` when left out."), required(id("session", "The session.")),
        required(text("reason", 1000, "Kept on the jobs."))},
       "`{\"jobs\": [job object], \"timed_out\": false, \"reported\": null}`",
       {E::not_found, E::state_corrupt}});
  out.push_back({Method::reconcile,
                 "reconcile",
                 "Of an operator: brings a store that is behind what this node has seen up to what "
                 "the job directories say, and names the directories that are nobody's.",
                 {},
                 "`{\"regressed\": it was, \"incarnation\", \"rebuilt\": [{\"job\", \"tenant\", "
                 "\"session\", \"status\"}]: had no row, \"settled\": the same of rows that were "
                 "behind, \"ended\": the same of jobs that nothing tells of, \"quarantined\": "
                 "[{\"job\", \"path\", \"started\", \"runs\", \"why\"}]}`",
                 {E::store_full}});
  out.push_back(
      {Method::backup,
       "backup",
       "A consistent copy of the store in one file of mode 0600, with the key that it "
       "needs, while everything goes on.",
       {required(text("path", kPathBytesMax, "Absolute; there must be no such file yet."))},
       "`{\"path\", \"bytes\", \"newest_receipt\"}`",
       {E::conflict, E::store_full, E::forbidden}});
  out.push_back({Method::shutdown,
                 "shutdown",
                 "Ends the daemon; jobs run on.",
                 {flag("stop_jobs", "Stop every job first."),
                  text("reason", 1000, "Kept on the jobs that are stopped.")},
                 "`{\"shutting_down\": true}`",
                 {}});
  out.push_back(
      {Method::prune,
       "prune",
       "Removes finished jobs that retention allows to go, one page in the order of "
       "acceptance; an operator's call, for all sessions.",
       {number("older_than_ms", 0, 3660 * kDayMs,
               "Ended at least this long ago; default: setting retention."),
        flag("dry_run", "Only say what would go."),
        number("after", 0, std::uint64_t{1} << 53, "`next` of the page before.")},
       "`{\"jobs\": [{\"id\", \"session\", \"label\", \"status\", \"finished_at\", "
       "\"bytes\"}], \"bytes\", \"dropped_events\", \"next\": number or null: there may be "
       "more}`",
       {E::store_full}});
  out.push_back({Method::version,
                 "version",
                 "Version of the daemon and of the protocol.",
                 {},
                 "`{\"version\", \"protocol\"}`",
                 {}});
}

std::vector<MethodInfo> build() {
  std::vector<MethodInfo> out;
  out.push_back({Method::hello,
                 "hello",
                 "Must be the first call of a connection.",
                 {required(number("protocol", 0, UINT32_MAX, "The protocol the client speaks: 1.")),
                  text("client", 200, "What the client is, for the log."),
                  text("version", 200, "The client's version, for the log.")},
                 "`{\"protocol\": 1, \"version\", \"limits\": {\"line_bytes\", \"calls\", "
                 "\"wait_timeout_ms\", \"wait_timeout_max_ms\"}}`",
                 {E::unsupported_version}});
  add_job_methods(out);
  add_session_methods(out);
  add_client_methods(out);
  add_turn_methods(out);
  add_delivery_methods(out);
  add_node_methods(out);
  return out;
}

}  // namespace

const std::vector<MethodInfo>& methods() {
  static const std::vector<MethodInfo> table = build();
  return table;
}

const MethodInfo* find_method(std::string_view name) {
  for (const MethodInfo& info : methods()) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

const Param* find_param(const MethodInfo& info, std::string_view name) {
  for (const Param& param : info.params) {
    if (param.name == name) return &param;
  }
  return nullptr;
}

std::string_view kind_word(ParamKind kind) {
  switch (kind) {
    case ParamKind::text:
      return "text";
    case ParamKind::id:
      return "id";
    case ParamKind::word:
      return "word";
    case ParamKind::number:
      return "whole number";
    case ParamKind::flag:
      return "true or false";
    case ParamKind::bytes:
    case ParamKind::any_bytes:
      return "base64 text";
    case ParamKind::text_list:
      return "list of texts";
    case ParamKind::word_list:
      return "list of words";
    case ParamKind::bytes_list:
      return "list of base64 texts";
    case ParamKind::text_map:
      return "object of texts";
  }
  return "";
}

}  // namespace waybill::edge
