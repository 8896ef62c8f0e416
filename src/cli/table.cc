#include "cli/table.h"

#include <algorithm>
#include <array>

namespace waybill::cli {
namespace {

constexpr std::size_t kMany = 1000;
constexpr std::string_view kTurnJson =
    R"({"turn","state":"open"|"held"|"closed","stopped","messages":[…],"revision",)"
    R"("waiting_for":[…],"timed_out"})";
constexpr std::string_view kSessionJson = R"({"session":{…}})";

FlagInfo timeout_flag(std::string_view description) {
  return {"--timeout", "D", false, description};
}

FlagInfo turn_flag() { return {"--turn", "T", false, "The turn; default $WAYBILL_TURN."}; }

std::vector<FlagInfo> run_flags() {
  return {
      turn_flag(),
      {"--label", "L", false, "A short name for people."},
      {"--cwd", "D", false, "Working directory; default: the current one."},
      {"--env", "K=V", true, "Set one variable on top of the caller's environment."},
      {"--shell", "SHELL", false, "bash, zsh, sh or a path; default /bin/bash."},
      {"--argv", "", false, "Execute the words as they are, without a shell."},
      {"--deadline", "D", false, "End the job this long after its start."},
      {"--start-within", "D", false, "Do not start it any more when queued for longer."},
      {"--grace", "D", false, "Between TERM and KILL; default 5s."},
      {"--cap", "SIZE", false, "Most output kept; default 64MiB."},
      {"--wrapper", "W", false, "Program and arguments that the command is run through."},
      {"--owner", "KIND", false, "session (default) or turn: whether the job outlives its turn."},
      {"--wake", "WHEN", false,
       "always (default), on_failure or never: when its end wakes a host."},
      {"--leftovers", "POLICY", false,
       "kill (default) or keep: processes that outlive the command."},
      {"--stdin", "", false, "Leave standard input open for `write`; otherwise it is empty."},
      {"--pty", "", false, "Give the command a terminal of its own."},
      {"--monitor", "PATTERN", true, "Tell of lines of output that this fits (RE2) while it runs."},
      {"--monitor-events", "N", false, "Most events of each monitor; default 10."},
      {"--monitor-rate", "N", false, "Most events a minute; default 6."},
      {"--monitor-wakes", "", false, "Monitors wake an idle host too."},
      {"--key", "K", false, "Idempotency key; default: a fresh one."},
      {"--wait", "", false, "Stream the output and exit with the job's own code."},
      timeout_flag("With --wait: stop waiting after this long; the job runs on."),
  };
}

void add_jobs(std::vector<CommandInfo>& out) {
  out.push_back({CommandId::run, "", "run", "", 0, 0, true, run_flags(),
                 "Accept a command job: one argument after `--` is shell text, several are "
                 "quoted into one.",
                 R"({"job":{…},"delivery_path":"this_turn"|"wake"|"next_attach","twin":ID|null})"});
  out.push_back({CommandId::show,
                 "",
                 "show",
                 "JOB",
                 1,
                 1,
                 false,
                 {},
                 "One job with its receipts and deliveries.",
                 R"({"job":{…}})"});
  out.push_back({CommandId::list,
                 "",
                 "list",
                 "",
                 0,
                 0,
                 false,
                 {{"--status", "S", true, "Only jobs in this status."},
                  {"--all-sessions", "", false, "Jobs of every session of the tenant."},
                  {"--limit", "N", false, "Most jobs, 1 to 500; default 50."},
                  {"--cursor", "C", false, "`next_cursor` of the page before."}},
                 "The session's jobs, newest first.",
                 R"({"jobs":[…],"next_cursor":C|null})"});
  out.push_back(
      {CommandId::logs,
       "",
       "logs",
       "JOB",
       1,
       1,
       false,
       {{"--follow", "", false, "Go on until the job is finished."},
        {"--raw", "", false, "The bytes themselves; made safe on a terminal."},
        {"--offset", "N", false, "First byte, absolute."},
        {"--bytes", "N", false, "Most raw bytes; with --json at most 1 MiB in one document."},
        {"--tail", "LINES", false, "Start about this many lines before the end."}},
       "Output of a job, rendered unless --raw.",
       R"({"offset","next_offset","end","gaps":[[from,to]],"data","encoding":"utf8"|"base64"})"});
  out.push_back({CommandId::wait,
                 "",
                 "wait",
                 "JOB...",
                 1,
                 kMany,
                 false,
                 {{"--any", "", false, "One finished job is enough."},
                  timeout_flag("Default 30s; exit 124 when it passes.")},
                 "Until the jobs are finished; exits with the first code that is not 0.",
                 R"({"jobs":[…],"timed_out":false})"});
  out.push_back({CommandId::stop,
                 "",
                 "stop",
                 "JOB...",
                 0,
                 kMany,
                 false,
                 {{"--all", "", false, "Every unfinished job of the session."},
                  {"--reason", "R", false, "Kept on the job."},
                  {"--wait", "", false, "Until every one is stopped."},
                  timeout_flag("With --wait; default 30s.")},
                 "Stop jobs: TERM, then KILL after the grace, until no process is left.",
                 R"({"jobs":[…]})"});
  out.push_back({CommandId::write,
                 "",
                 "write",
                 "JOB",
                 1,
                 1,
                 false,
                 {{"--close", "", false, "Afterwards the command reads the end of its input."},
                  timeout_flag("Give up when it is not all taken; default: never. Exit 124.")},
                 "Pass this command's standard input on to that of a job started with --stdin.",
                 R"({"jobs":[{…}],"written":N,"closed":false,"timed_out":false})"});
}

void add_sessions(std::vector<CommandInfo>& out) {
  out.push_back({CommandId::session_attach,
                 "session",
                 "attach",
                 "",
                 0,
                 0,
                 false,
                 {{"--host-pid", "P", false, "The lease lasts as long as this process."},
                  {"--lease", "D", false, "Lease after the last call of an open turn."},
                  {"--one-shot", "", false, "The host will not return after its turn."},
                  {"--wrapper", "W", false,
                   "Every command of the session is run through this (bwrap …, a sandbox)."},
                  {"--allow", "P", true, "Pattern (*, ?): a command must match one of these."},
                  {"--deny", "P", true, "Pattern: a command that matches is refused."}},
                 "Take the session over for this host key; shows fence, open turn and what is "
                 "outstanding.",
                 R"({"session":{…},"outstanding":{…}})"});
  out.push_back({CommandId::session_show,
                 "session",
                 "show",
                 "",
                 0,
                 0,
                 false,
                 {},
                 "The session as it stands.",
                 kSessionJson});
  out.push_back({CommandId::session_list,
                 "session",
                 "list",
                 "",
                 0,
                 0,
                 false,
                 {},
                 "All sessions of the tenant.",
                 R"({"sessions":[…]})"});
  out.push_back({CommandId::session_wait,
                 "session",
                 "wait",
                 "",
                 0,
                 0,
                 false,
                 {{"--revision", "N", false, "The last revision seen; required."},
                  timeout_flag("Default 30s; exit 124 when it passes.")},
                 "Until the session's revision is above N.",
                 kSessionJson});
}

void add_turns(std::vector<CommandInfo>& out) {
  const std::vector<FlagInfo> waits{
      turn_flag(),
      {"--wait", "", false, "Until the turn is closed or something has to be read."},
      timeout_flag("With --wait; default 30s.")};
  out.push_back({CommandId::turn_begin,
                 "turn",
                 "begin",
                 "",
                 0,
                 0,
                 false,
                 {turn_flag()},
                 "Open a turn and take what is pending; without --turn an id is made.",
                 kTurnJson});
  out.push_back({CommandId::turn_step,
                 "turn",
                 "step",
                 "",
                 0,
                 0,
                 false,
                 {turn_flag()},
                 "A step boundary: take what has come in meanwhile.",
                 kTurnJson});
  out.push_back({CommandId::turn_end, "turn", "end", "", 0, 0, false, waits,
                 "End the turn, or learn what it waits for or has to read first.", kTurnJson});
  out.push_back({CommandId::turn_stop, "turn", "stop", "", 0, 0, false, waits,
                 "The user stopped the turn; its own jobs are stopped.", kTurnJson});
  out.push_back({CommandId::turn_resume,
                 "turn",
                 "resume",
                 "",
                 0,
                 0,
                 false,
                 {turn_flag()},
                 "Go on with an open turn under a new fence.",
                 kTurnJson});
  out.push_back({CommandId::turn_abandon,
                 "turn",
                 "abandon",
                 "",
                 0,
                 0,
                 false,
                 {turn_flag()},
                 "Give the turn up; its jobs and events become the session's.",
                 kTurnJson});
}

void add_delivery(std::vector<CommandInfo>& out) {
  out.push_back({CommandId::inbox,
                 "",
                 "inbox",
                 "",
                 0,
                 0,
                 false,
                 {{"--follow", "", false, "Keep asking; only `ack` or a turn's end acknowledges."},
                  timeout_flag("Wait this long; exit 124 when nothing came."),
                  {"--no-ack", "", false, "Only an explicit `ack` counts."}},
                 "What is pending for the session's host.",
                 R"({"delivery","repeat","mode","events":[{…}],"text"})"});
  out.push_back({CommandId::ack,
                 "",
                 "ack",
                 "EVENT...",
                 1,
                 kMany,
                 false,
                 {},
                 "Acknowledge events or deliveries, all or none.",
                 R"({"acked":[…],"already":[…]})"});
}

void add_agents(std::vector<CommandInfo>& out) {
  out.push_back({CommandId::mcp,
                 "",
                 "mcp",
                 "",
                 0,
                 0,
                 false,
                 {{"--app-server", "unix://PATH", false,
                   "Codex: the app-server that holds its threads; default "
                   "$WAYBILL_CODEX_APP_SERVER, else as Codex was started."}},
                 "MCP server on stdin and stdout, for agents; see docs/mcp.md.",
                 "messages of MCP, with or without --json"});
  out.push_back({CommandId::hook,
                 "",
                 "hook",
                 "CLIENT EVENT",
                 2,
                 2,
                 false,
                 {{"--resume-when-closed", "", false,
                   "With SessionStart and UserPromptSubmit: Waybill may start the closed client "
                   "again when a job of the session has ended."}},
                 "What an agent client (claude, codex) runs at the events of its sessions; reads "
                 "the client's JSON from stdin. `setup` puts it where it belongs.",
                 "what the client reads"});
  out.push_back(
      {CommandId::host,
       "",
       "host",
       "CLIENT",
       1,
       1,
       true,
       {},
       "Start a client (claude, with --input-format stream-json) and stand between it and "
       "its caller: its streams pass through, and what jobs of its session end with goes "
       "in between.",
       "what the client writes"});
}

void add_node(std::vector<CommandInfo>& out) {
  out.push_back({CommandId::status,
                 "",
                 "status",
                 "",
                 0,
                 0,
                 false,
                 {},
                 "The daemon: counts, what is owed, settings in force.",
                 R"({"version","data_dir","running_jobs",…,"settings":{…}}; durations in ms)"});
  out.push_back({CommandId::owners,
                 "",
                 "owners",
                 "",
                 0,
                 0,
                 false,
                 {},
                 "Sessions that are refused, or whose stop is not confirmed, and why.",
                 R"({"owners":[{"tenant","session","kind","why","since","jobs":[ID]}]})"});
  out.push_back(
      {CommandId::owners_release,
       "owners",
       "release",
       "SESSION",
       1,
       1,
       false,
       {{"--reason", "R", false, "Why; kept on the jobs. Required."}},
       "Give up what cannot be recovered of a session: its jobs end failed, exit unknown.",
       R"({"jobs":[…]})"});
  out.push_back({CommandId::shutdown,
                 "",
                 "shutdown",
                 "",
                 0,
                 0,
                 false,
                 {{"--stop-jobs", "", false, "Stop every job first; otherwise they run on."},
                  {"--reason", "R", false, "Kept on the jobs that are stopped."}},
                 "End the daemon.",
                 R"({"shutting_down":true})"});
  out.push_back({CommandId::doctor,
                 "",
                 "doctor",
                 "",
                 0,
                 0,
                 false,
                 {},
                 "What the daemon finds about itself, and how agents are set up; exit 1 when there "
                 "is a problem.",
                 R"({"ok","findings":[{"subject","level","message"}],"clients":[{"client","found",)"
                 R"("version","wired","program","on_completion"}]})"});
  out.push_back({CommandId::prune,
                 "",
                 "prune",
                 "",
                 0,
                 0,
                 false,
                 {{"--older-than", "D", false,
                   "Ended at least this long ago; default: setting retention (14d)."},
                  {"--dry-run", "", false, "Only say what would go."}},
                 "Remove finished jobs of all sessions now, with their output, where everybody who "
                 "should has heard of them.",
                 R"({"jobs":[{"id","session","label","status","finished_at","bytes"}],"bytes",)"
                 R"("dropped_events","dry_run"})"});
  out.push_back(
      {CommandId::reconcile,
       "",
       "reconcile",
       "",
       0,
       0,
       false,
       {},
       "After an older store was put back: bring it up to what the job directories say, "
       "and name the directories that are nobody's (docs/storage.md).",
       R"({"regressed","incarnation","rebuilt":[{"job","tenant","session","status"}],)"
       R"("settled":[…],"ended":[…],"quarantined":[{"job","path","started","runs","why"}]})"});
  out.push_back({CommandId::backup,
                 "",
                 "backup",
                 "FILE",
                 1,
                 1,
                 false,
                 {},
                 "Copy the store into a new file, while everything goes on.",
                 R"({"path","bytes","newest_receipt"})"});
  out.push_back(
      {CommandId::setup,
       "",
       "setup",
       "CLIENT",
       1,
       1,
       false,
       {{"--apply", "", false, "Make the changes; without it they are only shown."},
        {"--undo", "", false, "Take out exactly what was put in."},
        {"--resume-when-closed", "", false, "Results resume a session that was closed, at once."}},
       "Set up an agent, claude or codex: its MCP server and its hooks, in the user's own "
       "configuration. Nothing else in the files changes, no permission or sandbox "
       "setting, and --undo gives their bytes back; only an empty `hooks` or `mcpServers` "
       "that another program has laid out anew meanwhile goes as if it were ours.",
       R"({"client","found","version","files":[{"path","action":"none"|"create"|"change"|)"
       R"("remove","before_sha256","after_sha256","diff"}],"applied":false})"});
  out.push_back({CommandId::version,
                 "",
                 "version",
                 "",
                 0,
                 0,
                 false,
                 {},
                 "Version of this program, its protocol, and of the daemon if one runs.",
                 R"({"version","protocol","daemon":VERSION|null})"});
}

std::vector<CommandInfo> build() {
  std::vector<CommandInfo> out;
  out.push_back({CommandId::serve,
                 "",
                 "serve",
                 "",
                 0,
                 0,
                 false,
                 {{"--set", "key=value", true, "One setting, above config.toml."},
                  {"--foreground", "", false, "Log to stderr also when it is no terminal."},
                  {"--ready-fd", "N", false, "Also write the ready line to this descriptor."}},
                 "The daemon, in the foreground.",
                 R"({"ready":true,"socket":PATH,"http":null})"});
  add_jobs(out);
  add_sessions(out);
  add_turns(out);
  add_delivery(out);
  add_agents(out);
  add_node(out);
  return out;
}

constexpr std::array<std::string_view, 7> kPlannedCommands{"send",   "release", "agent", "worker",
                                                           "answer", "message", "result"};
constexpr std::array<std::string_view, 1> kPlannedFlags{"--secret"};

}  // namespace

const std::vector<FlagInfo>& common_flags() {
  static const std::vector<FlagInfo> flags{
      {"--data", "DIR", false,
       "Data directory; default $WAYBILL_DATA, else $XDG_STATE_HOME/waybill."},
      {"--store", "URL", false, "Store of the daemon that is started; default SQLite."},
      {"--json", "", false, "One JSON document per line on stdout."},
      {"--tenant", "T", false, "Tenant; default local."},
      {"--session", "S", false, "Session; default $WAYBILL_SESSION, else user."},
      {"--host-key", "K", false, "The host's capability; default $WAYBILL_HOST_KEY."},
      {"--no-autostart", "", false, "Do not start a daemon when none runs."}};
  return flags;
}

const std::vector<CommandInfo>& commands() {
  static const std::vector<CommandInfo> table = build();
  return table;
}

bool is_planned_command(std::string_view word) {
  return std::find(kPlannedCommands.begin(), kPlannedCommands.end(), word) !=
             kPlannedCommands.end() ||
         word == "successor" || word == "dispose" || word == "rearm";
}

bool is_planned_flag(std::string_view flag) {
  return std::find(kPlannedFlags.begin(), kPlannedFlags.end(), flag) != kPlannedFlags.end();
}

}  // namespace waybill::cli
