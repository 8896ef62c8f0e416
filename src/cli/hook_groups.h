#pragma once
// Hooks in a client's JSON file: {"hooks":{EVENT:[{"matcher","hooks":[{"type","command",…}]}]}}.
// Each event gets one matcher group of ours. Reads the file and works out what it becomes; writes
// nothing.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/client_config.h"
#include "cli/file_change.h"

namespace waybill::cli {

struct HookEvent {
  const char* name;
  const char* matcher;   // nullptr: the event has none
  bool wakes = false;    // also has the hook that stays behind and wakes the session
  bool resumes = false;  // carries --resume-when-closed
};

struct HookFile {
  ClientId client;
  std::string path;
  std::span<const HookEvent> events;
};

// Ours in every event of the list and nowhere else; what is there of an older version or of a moved
// program is changed where it is, hooks of others in the same group stay.
Result<FileChange> plan_hooks(const HookFile& file, const Wiring& wiring);
Result<FileChange> undo_hooks(const HookFile& file);

// A hook of ours that is in the file.
struct FoundHook {
  std::string event;
  std::size_t group = 0;
  std::size_t index = 0;
  std::string matcher;  // "" none
  std::string command;
  OurHook ours;
};
struct FoundHooks {
  std::vector<FoundHook> hooks;
  bool complete = false;  // each hook that is put in is there, in its event
  bool resume_when_closed = false;
};
Result<FoundHooks> find_hooks(const HookFile& file);

inline constexpr int kHookSeconds = 20;

}  // namespace waybill::cli
