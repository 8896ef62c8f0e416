#pragma once
// The nasty commands: what a row of the table says, and the check of one row through the whole
// program (shell, hook, supervisor, verdict, exit code of `run --wait`). Rows are named after their
// number in the contract's table; commands_stop_test.cc holds the list that misses none.

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "e2e/harness.h"

namespace waybill::e2e {

struct Row {
  const char* name;
  const char* command;
  int shell_exit;           // exit.code; with `signal` that instead
  std::vector<int> stages;  // exits; empty: not claimed
  const char* findings;     // blanks between
  const char* verdict;
  const char* status;
  int run_exit;             // of `run --wait`
  const char* output;       // nullptr: not looked at
  const char* reason = "";  // why stages are not claimed
  int signal = 0;
  const char* shell = "bash";
};

inline void PrintTo(const Row& row, std::ostream* out) { *out << row.command; }

std::string findings_of(const boost::json::value& job);
std::vector<int> stage_exits_of(const boost::json::value& job);

// Runs the command and looks at everything the row says.
void expect_row(Daemon& daemon, const Row& row);

}  // namespace waybill::e2e
