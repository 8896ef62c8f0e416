#pragma once
// Completes a job whose supervisor is gone: adopts the main process while it lives, keeps its
// output, tells its end where the kernel can, stops it when that is wished, deals with leftovers,
// and writes the records that the supervisor would have written, marked "supervisor":"lost". It
// keeps the deadline, too, and watches what was kept or could not be killed until it is gone. Only
// an empty cgroup that was verified is a proof. Lives on the channel's thread; `step` never blocks
// for long.

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "shim/output_file.h"
#include "supervise/job_look.h"
#include "supervise/sweep.h"

namespace waybill::supervise {

struct OrphanPolicy {
  Millis grace{5000};
  std::optional<Millis> deadline;  // from the start
  Millis leftover_grace{1000};
  Millis drain_grace{500};
  Millis drain_max{2000};
  bool keep_leftovers = false;
  shim::OutputLimits limits;
};

// From the launch file; the defaults where it is missing or does not check. nullopt when that
// cannot be told now.
std::optional<OrphanPolicy> orphan_policy(const JobDir& dir);

class Orphan {
 public:
  // Takes the directory and, so that nobody else acts on the job, its lock.
  Orphan(JobLook look, OrphanPolicy policy);

  // Descriptors that call for a step when readable; -1: none.
  int pidfd() const { return pidfd_.get(); }
  int fifo() const { return fifo_.get(); }
  // Of one of those who were kept: readable at its end. True once after it has become another.
  int survivor() const { return survivor_.get(); }
  bool take_survivor_changed() { return std::exchange(survivor_changed_, false); }

  void request_stop() { stop_wanted_ = true; }
  // Of the output, while that is not on record.
  void lower_cap(std::uint64_t cap) {
    if (!final_written_) out_.lower_cap(cap);
  }

  struct Progress {
    std::optional<Millis> again_in;  // call again after this time at the latest
    bool changed = false;            // a record was written, or survivors are others
    bool done = false;               // everything is on record
  };
  Progress step(MonoTime now);

  // While a stop is under way: what the last scan found.
  const std::vector<core::ProcessNote>& survivors() const { return sweep_->survivors(); }

  // Why they are killed.
  core::EndedBy ended_by() const {
    return past_deadline_ ? core::EndedBy::deadline : core::EndedBy::stop;
  }

  // The daemon was the one to reap this process (as pid 1): if it is the main one, that is its end.
  void take_status(pid_t pid, int status);

  // The main process had already ended when this began, so only its leftovers are of interest.
  bool only_leftovers() const { return final_written_; }

 private:
  bool drain_fifo();
  void note_main_end(MonoTime now);
  void note_deadline(MonoTime now);
  bool ending() const { return stop_wanted_ || past_deadline_; }
  std::optional<Millis> drain_step(MonoTime now);
  bool write_exit();
  bool write_final();
  bool write_leftovers();
  void settle_leftovers(MonoTime now, Progress& progress);
  bool somebody_left();
  void watch_survivor();

  JobLook look_;
  OrphanPolicy policy_;
  shim::OutputFile out_;
  shim::FileId fifo_id_;
  UniqueFd pidfd_;
  UniqueFd fifo_;
  bool main_ended_ = false;
  bool status_settled_ = false;
  std::optional<int> status_;
  MonoTime ended_at_{};
  MonoTime last_byte_at_{};
  std::optional<MonoTime> deadline_;
  bool past_deadline_ = false;  // it is ended for that
  bool stop_wanted_ = false;
  core::EndedBy ended_by_ = core::EndedBy::itself;
  bool exit_written_ = false;
  bool final_written_ = false;
  bool leftovers_written_ = false;
  bool survivors_on_record_ = false;
  UniqueFd survivor_;
  MonoTime look_at_{};  // at the latest, for survivors
  bool survivor_changed_ = false;
  bool drained_ = false;
  std::unique_ptr<Sweep> sweep_;  // large
};

}  // namespace waybill::supervise
