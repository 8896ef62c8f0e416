#pragma once
// The job's main process between fork and exec: its own session, default signals, the output FIFO
// or a terminal as stdout and stderr, nothing of the daemon's environment. It waits at the gate and
// runs only if the start record was made durable.

#include <string_view>

#include "shim/launch.h"

namespace waybill::shim {

enum class ChildStep : int { none, stdio, output, chdir, exec, pty, gate };

// Written to the status pipe when something before the exec failed.
struct ChildFailure {
  int step = 0;
  int error = 0;
};

const char* word_of(int step);

struct ChildPlan {
  const Launch* launch = nullptr;
  int dir = -1;           // the job directory
  int gate_read = -1;     // one byte: go; end of file: never run
  int gate_write = -1;    // the supervisor's end, closed here
  int status_write = -1;  // closed by a successful exec
  int stdin_read = -1;    // becomes descriptor 0; -1: /dev/null, or the terminal
  int terminal = -1;  // becomes 1 and 2, and 0 with an open stdin; an errno below 0: none to get
  const char** argv = nullptr;
  const char** envp = nullptr;
};

// Runs in the child. Does not return.
[[noreturn]] void run_child(const ChildPlan& plan);

}  // namespace waybill::shim
