#include "cli/reference.h"

#include "cli/table.h"

namespace waybill::cli {
namespace {

constexpr std::string_view kIntro = R"(# Command line

Made by `waybill __reference cli` from the table that the parser uses; do not edit.

For people by default: aligned, colours only on a terminal and without NO_COLOR. With `--json` one
JSON document per line on stdout. Errors go to stderr as `waybill: sentence [code]`, with `--json`
also as `{"error":{"code","message"}}`. A command that needs a daemon starts one for its data
directory unless `--no-autostart` is given; a blocked command reconnects after a daemon restart.
Durations are written 250ms, 90s, 5m, 1h30m; sizes 4096, 64MiB, 1GiB.
)";

constexpr std::string_view kExitCodes = R"(
## Exit codes

| code | meaning |
|---|---|
| 0 | success |
| the job's own | of `run --wait` and `wait`: the first not 0, in the order given; 128+n: signal |
| 119 | the shell's exit was 0, but a stage of the pipeline failed |
| 120 | usage |
| 121 | refused; the error's code is printed |
| 122 | unavailable: no daemon answers, or what was asked for cannot be had now |
| 123 | state refused: corrupt, newer, regressed, unrecoverable |
| 124 | the wait timed out |
| 125 | the exit is not known, or the job was stopped in the queue |
| 126, 127 | as the shell gives them; 126 also: never started |
| 130 | `run --wait` was interrupted; the job runs on |
)";

constexpr std::string_view kObjects = R"(
## Objects

Times are RFC 3339 UTC with milliseconds; what is not known is null, never left out.

**Job**: `id, kind, tenant, session, turn, sandbox, generation, label, command_preview, cwd, status,
stopping, verdict, exit:{kind,code,signal,core,step,reason}, stages:[{command,exit,finding}] | null,
stages_reason, cause, actor, reason, proof, attempt, queue_position, waiting_because, created_at,
started_at, finished_at, duration_ms, output:{bytes,kept_bytes,gaps,digest,redactions},
leftovers:[{pid,comm,cmdline,state,holds_output}], usage:{cpu_ms,max_rss_bytes}, receipts:[…],
events:[{id,state,tries,last_error,acked_as}]`. Also `owner`, `wake`, `shell`, `survivors` (while
stopping, or of leftovers that were killed), `leftovers_kept`, `ended_by_itself`,
`output.digest_reason`, `output.incomplete`, `output.expired_at`,
`exit.errno`, `events[].dropped_as` (`expired` | `owner_gone`, docs/retention.md),
`stages_of` (`last` | `earlier`: which pipeline `stages` are of), `earlier:
{pipelines:[{statuses,finding}],truncated} | null` (docs/truth.md), and `cwd_base64` when cwd is not
valid UTF-8. `exit` is null until the job is
finished; `exit.signal` is a number; a stage's 128+n stays `code`. Lists leave `receipts` and
`events` empty.

**Receipt**: `seq, node_seq, name, from, to, attempt, activation, at, cause, actor, reason,
scope:{tenant,session,turn,sandbox,generation}`.

**Session**: `id, session, tenant, phase, fence:{incarnation,number}, fence_number, revision, turn,
turns:[{id,state,stopped,begun_at,closed_at}], one_shot, lease:{live,until,host_pid}, running_jobs,
queued_jobs, undelivered, withheld, created_at`. `turn` is the id of the open or held one.
)";

std::string flags_text(const std::vector<FlagInfo>& flags) {
  std::string out = "\n| flag | |\n|---|---|\n";
  for (const FlagInfo& flag : flags) {
    out += "| `" + std::string(flag.name);
    if (!flag.value.empty()) out += " " + std::string(flag.value);
    out += flag.repeated ? "`... | " : "` | ";
    out += std::string(flag.description) + " |\n";
  }
  return out;
}

std::string command_text(const CommandInfo& command) {
  const std::string name =
      (command.group.empty() ? "" : std::string(command.group) + " ") + std::string(command.name);
  std::string line = "waybill " + name;
  if (!command.flags.empty()) line += " [flags]";
  if (!command.operands.empty()) line += " " + std::string(command.operands);
  if (command.takes_command) line += " -- COMMAND...";
  std::string out = "\n## " + name + "\n\n`" + line + "`\n\n" + std::string(command.summary) + "\n";
  if (!command.flags.empty()) out += flags_text(command.flags);
  return out + "\nJSON: `" + std::string(command.json) + "`\n";
}

}  // namespace

std::string cli_reference() {
  std::string out(kIntro);
  out += "\n## Common flags\n\nAnywhere before `--`, also between the two words of a command.\n";
  out += flags_text(common_flags());
  out += kExitCodes;
  for (const CommandInfo& command : commands()) out += command_text(command);
  return out + std::string(kObjects);
}

}  // namespace waybill::cli
