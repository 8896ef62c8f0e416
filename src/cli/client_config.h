#pragma once
// The agents that Waybill can be set up for: where their configuration lies, what of it is ours,
// and what changes when ours is put in or taken out. Reads files and the environment; writes
// nothing.
//
// Ours are: the MCP server named `waybill` whose command is a program `waybill`, and hooks whose
// command is such a program followed by ` hook <client> `, wherever the program lies.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/file_change.h"

namespace waybill::cli {

enum class ClientId { claude, codex };

inline constexpr ClientId kClients[] = {ClientId::claude, ClientId::codex};

std::string_view to_word(ClientId client);
std::optional<ClientId> client_from_word(std::string_view word);

// What is put in.
struct Wiring {
  std::string program;   // absolute
  std::string data_dir;  // absolute; "": the default of whoever calls
  bool resume_when_closed = false;
};

// Every file that belongs to the client's setup, with what it would become. bad_request: a file
// does not parse or has another shape (named with its position); conflict: the name is taken.
Result<std::vector<FileChange>> plan_setup(ClientId client, const Wiring& wiring);
Result<std::vector<FileChange>> plan_undo(ClientId client);

// What is in the files now.
struct Wired {
  bool any = false;
  bool complete = false;  // everything that plan_setup puts in, whatever its arguments
  std::string program;    // "" none
  bool resume_when_closed = false;
  bool trusted = true;  // the client runs the hooks; Codex asks the person first
};
Result<Wired> look_at_client(ClientId client);

// ---- for the clients' own files ----------------------------------------------------------------

// A hook's command as ours: its program, its event and the rest.
struct OurHook {
  std::string program;
  std::string event;
  std::string flags;
};
std::optional<OurHook> our_hook(std::string_view command, ClientId client);

bool is_our_program(std::string_view program);

// Shell text of one hook; words of the MCP server behind its program.
std::string hook_command(const Wiring& wiring, ClientId client, std::string_view event);
std::vector<std::string> mcp_arguments(const Wiring& wiring);

// An absolute directory of the environment, else this one below HOME. bad_request: no HOME.
Result<std::string> client_directory(const char* variable, std::string_view below_home);

Result<std::vector<FileChange>> plan_claude(const Wiring& wiring);
Result<std::vector<FileChange>> undo_claude();
Result<Wired> look_at_claude();
Result<std::vector<FileChange>> plan_codex(const Wiring& wiring);
Result<std::vector<FileChange>> undo_codex();
Result<Wired> look_at_codex();

}  // namespace waybill::cli
