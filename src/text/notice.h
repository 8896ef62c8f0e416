#pragma once
// A notice: the events of one hand-over, rendered for a model. Compact, bounded and framed, so that
// nothing a job prints or is called can forge or close it (text/frame.h).
//
// Guarantees:
// - The text is at most `hand_over_max` bytes (of at least 1 KiB), the shown end of an output at
//   most `tail_max` bytes, whatever the events hold. It is valid UTF-8 without control characters
//   other than newline and tab.
// - Failed comes first, otherwise the order given is kept. Each event has its own entry. When room
//   is short, ends of outputs shrink first, then optional lines go, then the entry is one line; of
//   more events than fit so, the rest is counted, with how to list and acknowledge them.
// - What is left out is said: bytes of output not shown, gaps never kept, lines cut with `…`.
// Pure: the same notice gives the same text.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace waybill::text {

struct NoticeProcess {
  int pid = 0;
  std::string name;     // comm
  std::string state;    // R, S, D …; "" not known
  std::string cmdline;  // untrusted, like the name
};

struct NoticeEvent {
  std::string event_id;
  std::string type;  // job.failed …
  std::string job_id;
  std::string label;                // "" none
  std::string status;               // words of SPEC section 3
  std::string verdict;              // "" not known yet
  std::string sentence;             // core::describe
  std::vector<std::string> stages;  // core::describe_stage, one each; empty: not claimed
  std::optional<Millis> duration;
  std::string cause;  // "" none
  std::string actor;
  std::string reason;
  std::string command;                                        // or its preview
  std::string tail;                                           // the last raw bytes of output
  std::uint64_t output_bytes = 0;                             // logical length
  std::vector<std::pair<std::uint64_t, std::uint64_t>> gaps;  // never kept: [from, to)
  std::string output_incomplete;                              // "" or why the end may be missing
  bool repeat = false;
  std::string read_more;                 // command that reads the output, "" none
  std::vector<NoticeProcess> survivors;  // of a stop that is not confirmed
  std::vector<NoticeProcess> leftovers;  // alive when the main process had ended
  std::string leftovers_fate;            // "killed", "kept" … "" not settled
};

struct Notice {
  std::string delivery_id;  // "" when nothing is to be acknowledged by it
  bool repeat = false;
  std::vector<NoticeEvent> events;
  std::string list_more = "waybill list";  // command that lists what did not fit
};

struct NoticeLimits {
  std::size_t tail_max = 4 * 1024;
  std::size_t hand_over_max = 16 * 1024;
};

std::string render_notice(const Notice& notice, const NoticeLimits& limits = {});

// "250ms", "12.3s", "1m 12s", "2h 5m", "3d 4h"; units are cut, not rounded up.
std::string human_duration(Millis duration);

}  // namespace waybill::text
