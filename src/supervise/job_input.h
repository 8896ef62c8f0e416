#pragma once
// Writing to the standard input of a job that has one (docs/files.md, `in.fifo`). Never blocks,
// keeps nothing: what the FIFO takes is with the job, what it does not take is the caller's.

#include <string_view>

#include "base/unique_fd.h"
#include "supervise/job_dir.h"

namespace waybill::supervise {

enum class InputState {
  open,         // everything was taken
  full,         // `fd` is writable when there is room again, or when nobody reads any more
  not_started,  // the start is not on record yet: nothing may be written
  closed,       // a close is on record
  unread,       // the command has closed it, or has ended
  lost,         // the supervisor is gone, and with it the end that kept it open
  failed,       // `error`
};

struct InputFeed {
  InputState state = InputState::failed;
  std::size_t taken = 0;
  int error = 0;
  UniqueFd fd;
};

InputFeed feed_input(const std::string& data_dir, const JobId& job, std::string_view bytes);

// The wish, durable first, then the hint to the supervisor. Twice is harmless. 0 or errno.
int close_input(const std::string& data_dir, const JobId& job);

// The hint again, for a wish whose writer may have died before it gave one.
void hint_close(const JobDir& dir);

// The end of the main process is on record.
bool main_end_recorded(const std::string& data_dir, const JobId& job);

}  // namespace waybill::supervise
