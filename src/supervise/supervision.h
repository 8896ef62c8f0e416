#pragma once
// The recovery table (docs/files.md): from what lies in a job directory, whether its lock is held
// and whether its main process is still that process, to the state of the job. Pure and total;
// says nothing about what to do.

#include "core/facts.h"

namespace waybill::supervise {

enum class RecordState { absent, torn, good };

struct DirectoryState {
  bool lock_held = false;
  RecordState start = RecordState::absent;
  RecordState exit = RecordState::absent;
  RecordState final_record = RecordState::absent;
  bool exit_by_daemon = false;   // the exit record says that the supervisor was lost
  bool same_generation = false;  // the start record is of this machine generation
  bool main_is_same = false;     // the main process of the start record is still that process
};

core::Supervision supervision_of(const DirectoryState& state);

}  // namespace waybill::supervise
