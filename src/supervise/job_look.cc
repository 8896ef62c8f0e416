#include "supervise/job_look.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "shim/cgroup.h"
#include "shim/files.h"
#include "shim/proc.h"
#include "supervise/cgroup_root.h"
#include "supervise/output_reader.h"
#include "supervise/supervision.h"

namespace waybill::supervise {
namespace {

constexpr std::size_t kStagesBytesMax = 64 * 1024;

// One read decides: a second question ("and does the name exist?") would be answered about a later
// moment, in which the supervisor may have renamed the record into place. A file that was really
// read and does not check is read once more before it counts as torn.
template <class T>
Read<T> read_record(JobLook& look, const char* name,
                    Read<T> (*parse)(std::string_view, std::string_view)) {
  Read<T> result;
  for (int i = 0; i < 2 && look.error == 0 && !result.good(); ++i) {
    std::string text;
    const int error = look.dir->read(name, shim::kRecordBytesMax + 1, text);
    result.state = RecordState::absent;
    if (error == 0) {
      result = parse(text, look.job.str());
    } else if (error == ELOOP) {
      result.state = RecordState::torn;  // somebody put something else in its place
    } else if (error == ENOENT) {
      return result;
    } else {
      look.error = error;
    }
  }
  return result;
}

void copy_exit(const JobLook& look, core::JobFacts& facts) {
  const bool final_torn = look.final_record.state == RecordState::torn;
  if (look.exit.state == RecordState::torn || final_torn) {
    facts.exit_torn = true;
    facts.exit = core::Exit::unknown(final_torn ? "The final record does not check."
                                                : "The exit record does not check.");
    return;
  }
  if (!look.exit.good()) return;
  const ExitRecord& exit = look.exit.value;
  facts.exit = exit.exit;
  facts.ended_by = exit.ended_by;
  facts.oom = exit.oom;
  facts.finished_at = exit.ended_at;
  facts.duration = exit.duration;
  if (exit.usage_known) facts.usage = exit.usage;
}

void copy_leftovers(const JobLook& look, core::JobFacts& facts) {
  if (!look.final_record.good()) return;
  core::LeftoverFacts leftovers;
  leftovers.found = look.final_record.value.leftovers;
  leftovers.survived = leftovers.found;
  leftovers.settled = leftovers.found.empty();
  leftovers.kept = !leftovers.found.empty() && look.final_record.value.keep;
  if (look.leftovers.good()) {
    leftovers.survived = look.leftovers.value.survived;
    leftovers.kept = look.leftovers.value.kept;
    leftovers.by_daemon = look.leftovers.value.by_daemon;
    leftovers.settled = true;
  }
  // Nothing outlives its machine.
  if (look.start.good() && !look.same_generation) {
    leftovers.survived.clear();
    leftovers.settled = true;
  }
  facts.leftovers = std::move(leftovers);
}

bool has_ended(core::Supervision supervision) {
  return supervision == core::Supervision::finished || supervision == core::Supervision::lost ||
         supervision == core::Supervision::generation_gone;
}

}  // namespace

bool JobLook::records_missing() const {
  if (!dir || lock_held) return false;
  switch (supervision) {
    case core::Supervision::orphaned:
      return true;
    case core::Supervision::lost:
    case core::Supervision::finished:
      return exit.state == RecordState::absent || final_record.state == RecordState::absent;
    case core::Supervision::not_launched:
    case core::Supervision::launching:
    case core::Supervision::running:
    case core::Supervision::draining:
    case core::Supervision::generation_gone:
      return false;
  }
  return false;
}

bool JobLook::leftovers_unsettled() const {
  return dir && !lock_held && final_record.good() && !final_record.value.leftovers.empty() &&
         leftovers.state == RecordState::absent;
}

bool JobLook::survivors_unwatched() const {
  return dir && !lock_held && same_generation && leftovers.good() &&
         !leftovers.value.survived.empty();
}

JobLook look_at(const LookOrder& order) {
  JobLook look;
  look.job = order.job;
  look.dir = JobDir::open(*order.data_dir, order.job, look.error);
  if (!look.dir) return look;
  if (order.shim_known_alive) {
    look.lock_held = true;
  } else {
    LockProbe probe = probe_lock(*look.dir);
    look.error = probe.error;
    look.lock_held = probe.state == LockState::held;
    look.lock = std::move(probe.lock);
  }
  look.leftovers = read_record(look, shim::kLeftovers, parse_leftovers);
  look.final_record = read_record(look, shim::kFinal, parse_final);
  look.exit = read_record(look, shim::kExit, parse_exit);
  // What was scribbled on while its supervisor lives is written again when the time has come: a
  // torn record is an ending only when nobody is there to write another (I7).
  if (look.lock_held && !look.final_record.good()) {
    if (look.final_record.state == RecordState::torn) look.final_record = {};
    if (look.exit.state == RecordState::torn) look.exit = {};
  }
  look.survivors = read_record(look, shim::kStop, parse_survivors);
  look.start = read_record(look, shim::kStart, parse_start);
  const int wish = look.dir->probe(shim::kStopReq);
  look.stop_wished = wish == 0;
  if (look.error == 0 && wish != ENOENT) look.error = wish;
  if (look.error == 0 && look.exit.good() && look.start.good() && look.start.value.captured) {
    const int error = look.dir->read(shim::kStages, kStagesBytesMax, look.stages);
    if (error != ENOENT && error != ELOOP) look.error = error;
  }
  // A path that is not this job's own group, or that means another one from here, is none: nothing
  // is killed, removed or proven by it.
  std::string& cgroup = look.start.value.cgroup;
  if (!cgroup.empty() && (!is_cgroup_of_job(cgroup, *order.data_dir, order.job) ||
                          look.start.value.cgroupns != shim::cgroup_namespace())) {
    cgroup.clear();
  }
  DirectoryState state;
  state.lock_held = look.lock_held;
  state.start = look.start.state;
  state.exit = look.exit.state;
  state.final_record = look.final_record.state;
  state.exit_by_daemon = look.exit.good() && look.exit.value.by_daemon;
  look.same_generation = look.start.good() && look.start.value.generation == *order.generation;
  state.same_generation = look.same_generation;
  // Its lock file was removed or replaced, but the supervisor on record lives.
  if (look.error == 0 && !look.lock_held && look.same_generation && runs(look.start.value.shim) &&
      !look.final_record.good()) {
    look.lock_held = state.lock_held = true;
    look.lock.reset();
  }
  const Same same = look.same_generation ? compare_process(look.start.value.main) : Same::no;
  state.main_is_same = same == Same::yes;
  // There is a process of this number, but /proc could not be read: it may well be ours.
  if (look.error == 0 && same == Same::unknown) look.error = EAGAIN;
  look.supervision = supervision_of(state);
  return look;
}

bool ended_on_record(const std::string& data_dir, const JobId& job) {
  JobLook look;
  look.job = job;
  look.dir = JobDir::open(data_dir, job, look.error);
  if (!look.dir) return false;
  const Read<FinalRecord> last = read_record(look, shim::kFinal, parse_final);
  return last.good() && last.value.leftovers.empty();
}

core::OutputFacts output_from_files(const std::string& job_dir) {
  core::OutputFacts output;
  OutputReader reader(job_dir);
  const Result<OutputPiece> first = reader.read(0, 0);
  output.digest_reason = "The output was not completed.";
  output.incomplete = "supervisor_lost";
  if (!first) return output;
  output.gaps = with_holes(job_dir, reader.gaps());
  output.bytes = reader.end();
  output.kept_bytes = output.bytes;
  for (const core::Gap& gap : output.gaps) output.kept_bytes -= gap.to - gap.from;
  return output;
}

core::JobFacts facts_of(const JobLook& look) {
  core::JobFacts facts;
  facts.job = look.job;
  facts.supervision = look.supervision;
  if (!look.dir) return facts;
  facts.start_torn = look.start.state == RecordState::torn;
  if (look.start.good()) {
    facts.started_at = look.start.value.started_at;
    facts.captured = look.start.value.captured;
  }
  copy_exit(look, facts);
  if (look.final_record.good()) {
    facts.proof = look.final_record.value.proof;
    facts.output = look.final_record.value.output;
  }
  copy_leftovers(look, facts);
  if (!look.final_record.good() && look.survivors.good() && look.lock_held) {
    facts.survivors = look.survivors.value.survivors;
  }
  // A file this long is not the hook's.
  if (look.stages.size() < kStagesBytesMax) {
    facts.stages = core::parse_stage_record(look.stages);
    facts.history = core::parse_stage_history(look.stages);
  }
  if (!has_ended(look.supervision)) return facts;
  if (look.supervision == core::Supervision::generation_gone) {
    facts.exit = core::Exit::unknown("The machine that ran it is gone.");
    facts.proof = core::Proof::generation;
  }
  // No record can prove anything about a job whose final record is missing or damaged.
  if (facts.proof == core::Proof::none && !look.final_record.good()) {
    facts.proof = core::Proof::unproven;
  }
  if (!facts.exit) facts.exit = core::Exit::unknown("The supervisor was lost.");
  if (!facts.output) facts.output = output_from_files(look.dir->path());
  facts.tail = OutputReader(look.dir->path(), facts.output).tail(kTailBytes);
  return facts;
}

}  // namespace waybill::supervise
