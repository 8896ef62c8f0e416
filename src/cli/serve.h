#pragma once
// The seam to the daemon: `serve` is parsed here and carried out there.
//
// What is written to `ready_fd`, one line, then the descriptor is closed:
//   when it accepts calls   {"ready":true,"socket":PATH,"http":null}
//   when it cannot serve    {"error":{"code":WORD,"message":SENTENCE}}
// When another daemon holds the data directory the word is `conflict`; whoever started this one
// then simply connects to the other. The socket must appear by rename, already listening.

#include <string>
#include <utility>
#include <vector>

namespace waybill::cli {

struct ServeOptions {
  std::string data_dir;  // absolute
  std::string store;     // URL, empty: SQLite in the data directory
  std::vector<std::pair<std::string, std::string>> settings;  // --set key=value, in order
  bool json = false;
  bool foreground = false;  // log to stderr also when it is no terminal
  int ready_fd = -1;        // -1: none; the ready line goes to stdout in any case
};

// Serves until told to end; gives the exit code. Implemented by the daemon.
int serve_main(const ServeOptions& options);

}  // namespace waybill::cli
