#pragma once
// What the supervisor's files say about one job. `supervise/` reads and reports; it never decides
// what follows. The engine feeds these facts to the transition table.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "core/exit.h"
#include "core/stages.h"
#include "core/words.h"

namespace waybill::core {

// Where a job is, by its files and its lock (recovery table of docs/files.md).
enum class Supervision {
  not_launched,     // lock free and no start record: provably never executed
  launching,        // lock held, no start record yet
  running,          // start record, lock held
  draining,         // exit record, lock held, output not complete
  finished,         // final record: output complete, ending proven as `proof` says
  orphaned,         // supervisor gone, main process alive by identity: adopted, watched to its end
  lost,             // supervisor gone and main process gone: the ending was not observed
  generation_gone,  // started in a machine generation that no longer exists
};
WAYBILL_WORDS(Supervision, 8, "not_launched", "launching", "running", "draining", "finished",
              "orphaned", "lost", "generation_gone");

// What shows that every process of the job is gone (I7).
enum class Proof { none, subreaper, cgroup, pidns, generation, lease, unproven };
WAYBILL_WORDS(Proof, 7, "none", "subreaper", "cgroup", "pidns", "generation", "lease", "unproven");

// Who ended the main process, when it was us.
enum class EndedBy { itself, stop, deadline, output_cap };
WAYBILL_WORDS(EndedBy, 4, "itself", "stop", "deadline", "output_cap");

struct ProcessNote {
  int pid = 0;
  std::string comm;
  std::string cmdline;        // joined by blanks, cut at 200 bytes, valid UTF-8
  std::string state;          // R, S, D, T, Z …; "" when not known
  bool holds_output = false;  // has our output descriptor open
  // Of what survives being killed: where in the kernel it waits, and why it is still there, as far
  // as that can be told: D_state, EPERM_setuid, zombie_of_ptracer.
  std::string wchan = {};
  std::string reason = {};
};

struct Gap {
  std::uint64_t from = 0;  // first byte dropped
  std::uint64_t to = 0;    // first byte kept again
  friend bool operator==(const Gap&, const Gap&) = default;
};

struct OutputFacts {
  std::uint64_t bytes = 0;       // logical length: every byte the job wrote and we saw
  std::uint64_t kept_bytes = 0;  // bytes - gaps
  std::vector<Gap> gaps;
  std::string digest;         // SHA-256 hex over head, "gap:from-to", tail; "" with a reason
  std::string digest_reason;  // why there is none
  std::string incomplete;     // "" or why the end may be missing (enospc, supervisor lost)
};

struct UsageFacts {
  std::uint64_t cpu_ms = 0;
  std::uint64_t max_rss_bytes = 0;
};

struct LeftoverFacts {
  std::vector<ProcessNote> found;  // alive when the main process had ended and output was drained
  std::vector<ProcessNote> survived;  // still alive now
  bool settled = false;               // the leftover record is written: killed, kept or ended
  bool kept = false;                  // policy keep
  bool by_daemon = false;             // the supervisor was lost: nothing here proves anything
};

struct JobFacts {
  JobId job;
  Supervision supervision = Supervision::not_launched;
  bool start_torn = false;  // start record does not check: treated as started, never launched again
  bool exit_torn = false;   // exit or final record does not check: the ending is unknown
  std::optional<WallTime> started_at;
  std::optional<WallTime> finished_at;  // end of the main process
  std::optional<Millis> duration;       // monotonic, to the end of the main process
  std::optional<Exit> exit;
  EndedBy ended_by = EndedBy::itself;
  bool oom = false;  // the kernel says so
  std::optional<StageRecord> stages;
  StageHistory history;   // of earlier pipelines
  bool captured = false;  // a stage hook was installed
  Proof proof = Proof::none;
  std::vector<ProcessNote> survivors;  // while stopping: what is not gone yet
  std::optional<OutputFacts> output;
  std::optional<UsageFacts> usage;
  std::optional<LeftoverFacts> leftovers;
  std::string tail;  // finished: the last raw bytes of output, at most 64 KiB
  std::string
      launch_error;  // the launch could not be carried out (not_launched): why, "" otherwise
  int launch_errno = 0;
};

}  // namespace waybill::core
