#pragma once
// One supervisor, one job, one thread: runs the command, keeps its output, records its end, and
// confirms that nothing of it is left. States are in files that anyone can read (docs/files.md);
// nobody is waited for. Linear on purpose: run → drain → final record → leftovers, and a stop that
// may cut in anywhere. Everything waits in `pump`.

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shim/cgroup.h"
#include "shim/launch.h"
#include "shim/output_file.h"
#include "shim/proc.h"
#include "shim/pty.h"
#include "shim/stdin.h"

namespace waybill::shim {

enum class EndedBy : int { itself, stop, deadline };

std::int64_t mono_ns();
std::int64_t wall_ms();

// What main() has opened before the gate.
struct ShimSetup {
  int dir = -1;
  int signals = -1;  // signalfd of SIGCHLD and SIGUSR1
  int fifo = -1;     // where the job's output comes from; of a job with a terminal, our side of it
  int ctl = -1;
  int exit_fd = -1;   // exit.tmp, space reserved
  int final_fd = -1;  // final.tmp, space reserved
  int status = -1;    // the child's failure, or end of file once it has exec'ed
  Terminal terminal;  // with pty
  Input input;        // with an open stdin
  int cgroup = -1;    // entered and verified; -1: none
  OomCounter oom;
  bool gate_shut = false;  // a stop was wished before the gate opened: nothing runs
  pid_t main = -1;
  std::int64_t started_wall_ms = 0;
  std::int64_t started_mono_ns = 0;
};

// The few launch fields that are needed for the whole life; the launch file itself is unmapped.
struct ShimConfig {
  char job[128] = {};
  char crash_point[40] = {};
  char cgroup[kCgroupPathMax] = {};  // the one that was wished for; "" none
  std::int64_t grace_ns = 0;
  std::int64_t deadline_ns = 0;
  std::int64_t leftover_grace_ns = 0;
  std::int64_t drain_grace_ns = 0;
  std::int64_t drain_max_ns = 0;
  OutputLimits limits;
  bool keep_leftovers = false;
  bool capture = false;
};

void ring_bell(int dir, std::string_view job);

class Shim {
 public:
  Shim(const ShimSetup& setup, const ShimConfig& config);

  // Creates the output files; before the gate. 0 or errno.
  int create_output() { return out_.create(setup_.dir, config_.limits); }

  // Everything after the gate. Returns when all that will ever be known is durable.
  void run(const ShimSetup& setup);

 private:
  // run.cc
  void pump(std::int64_t timeout_ns);
  bool read_output();
  void hung_up();
  void widen_fifo(std::size_t got);
  void read_all_output();
  void read_ctl();
  void take_ctl(char c);
  void read_signals();
  void reap();
  void on_main_exit();
  void build_exit(JsonLine& line) const;
  void settle_exit();
  void put_reserved(int fd, RecordNames names, JsonLine& line);
  void drain();
  bool output_held();
  void write_final();
  void run_main();
  std::int64_t until(std::int64_t at_ns) const;
  void crash(std::string_view point) const;

  // stop.cc
  void stop_everything(EndedBy reason, std::int64_t grace_ns);
  void term_pass();
  void kill_round();
  void sweep(std::int64_t began_ns);
  void find_members();
  bool gone() const;
  void leave_cgroup();
  void publish_survivors(std::int64_t began_ns);
  void stop_meanwhile();
  void pause_for_record();

  // leftovers.cc
  void leftovers();
  void kill_leftovers();
  void keep_leftovers();
  void find_leftovers();
  void write_leftovers(bool kept);

  ShimSetup setup_;
  ShimConfig config_;
  OutputFile out_;
  FileId fifo_id_;

  bool main_ended_ = false;    // seen by waitid; the exit record has been renamed
  bool exit_durable_ = false;  // fsynced, the zombie reaped
  bool recording_ = false;     // inside on_main_exit
  bool no_child_ = false;      // waitpid has said ECHILD
  bool stop_seen_ = false;
  bool cap_begun_ = false;  // of a number in ctl
  std::uint64_t cap_wish_ = 0;
  bool stopping_ = false;
  bool discard_ = false;   // output is complete: read and forget
  bool gone_dir_ = false;  // the job directory was removed: nothing can be recorded
  EndedBy ended_by_ = EndedBy::itself;
  siginfo_t info_{};
  rusage usage_{};
  std::int64_t ended_mono_ns_ = 0;
  std::int64_t ended_wall_ms_ = 0;
  int fifo_bytes_ = 0;  // its size once that was asked, -1 when it cannot grow
  std::int64_t last_output_ns_ = 0;
  std::int64_t last_sync_ns_ = 0;
  std::int64_t published_ns_ = 0;
  std::int64_t kill_at_ns_ = 0;  // everybody was asked to end; 0: nobody yet
  std::uint32_t published_crc_ = 0;
  Members& members_;  // zeroed memory outside of this object: costs nothing until used
  Members& before_;
};

}  // namespace waybill::shim
