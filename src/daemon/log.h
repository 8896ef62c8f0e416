#pragma once
// The daemon's log: JSON lines in DATA/daemon.log, rotated at a bounded size. Any thread may write.
// No output of a job, no environment value and no command text goes here.

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace waybill::daemon {

class Log {
 public:
  // At most three files of 4 MiB: daemon.log, daemon.1.log, daemon.2.log. `to_stderr`: the same for
  // a person who runs the daemon in a terminal.
  static Result<std::unique_ptr<Log>> open(const std::string& directory, bool to_stderr);

  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void info(std::string_view message);
  void warn(std::string_view message);
  void error(std::string_view message);

 private:
  struct Impl;
  explicit Log(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Text as a JSON string, quotes included; control characters escaped, bytes that are not UTF-8
// replaced.
std::string json_string(std::string_view text);

}  // namespace waybill::daemon
