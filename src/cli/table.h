#pragma once
// The one described table of the command line. The parser, the help, docs/cli.md and the refusal of
// what does not exist yet are made from it.

#include <string_view>
#include <vector>

namespace waybill::cli {

enum class CommandId {
  serve,
  run,
  show,
  list,
  logs,
  wait,
  stop,
  write,
  session_attach,
  session_show,
  session_list,
  session_wait,
  turn_begin,
  turn_step,
  turn_end,
  turn_stop,
  turn_resume,
  turn_abandon,
  inbox,
  ack,
  mcp,
  status,
  shutdown,
  doctor,
  prune,
  owners,
  owners_release,
  reconcile,
  backup,
  hook,
  host,
  setup,
  version,
};

struct FlagInfo {
  std::string_view name;   // "--label"
  std::string_view value;  // "L"; empty: a switch
  bool repeated = false;
  std::string_view description;
};

struct CommandInfo {
  CommandId id;
  std::string_view group;     // "session", "turn" or empty
  std::string_view name;      // the last word
  std::string_view operands;  // "JOB...", empty: none
  std::size_t operands_min = 0;
  std::size_t operands_max = 0;
  bool takes_command = false;  // what stands after `--` is a command
  std::vector<FlagInfo> flags;
  std::string_view summary;
  std::string_view json;  // what --json prints
};

// Flags that every command takes.
const std::vector<FlagInfo>& common_flags();

const std::vector<CommandInfo>& commands();

// Words and flags of the contract that this version does not have yet.
bool is_planned_command(std::string_view word);
bool is_planned_flag(std::string_view flag);

}  // namespace waybill::cli
