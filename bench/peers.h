#pragma once
// The same work by others: a bare spawn with a durable record, task-spooler, nq.

#include <string>
#include <vector>

#include "suite.h"

namespace waybill::bench {

struct Rate {
  double per_second = 0;
  double cpu_ms = 0;  // per job, of the commands and whatever started them
};

// `width` at once; `records` times one line is appended and synced per job: at its end, or at its
// start and at its end.
Rate bare_rate(const Suite& suite, const std::vector<std::string>& argv, int jobs, int width,
               int records);

class TaskSpooler {
 public:
  static bool there();
  TaskSpooler(const Suite& suite, int width);
  ~TaskSpooler();
  TaskSpooler(const TaskSpooler&) = delete;
  TaskSpooler& operator=(const TaskSpooler&) = delete;

  double rate(int jobs);
  // Milliseconds from the end of the command to the end of `tsp -w`.
  double exit_ms();
  // Until `tsp -w` returns; the file that the output went to is removed.
  double output_seconds(std::vector<std::string> argv);

 private:
  int call(std::vector<std::string> words) const;

  const Suite& suite_;
  std::vector<std::string> env_;
};

class Nq {
 public:
  static bool there();
  explicit Nq(const Suite& suite);

  double rate(int jobs) const;  // one after the other: nq knows nothing else
  double exit_ms() const;       // the same for `nq -w`

 private:
  int call(std::vector<std::string> words) const;

  const Suite& suite_;
  std::vector<std::string> env_;
};

// How long the stamped command runs before its end, so that launching is over by then.
inline constexpr char kStampMs[] = "50";
std::string stamp_file(const Suite& suite);
// What the stamped command wrote down, on the clock of mono_ns().
std::int64_t read_stamp(const Suite& suite);

}  // namespace waybill::bench
