#pragma once
// Job directories as evidence: which there are, and what one of them says of a job whose row may be
// lost (docs/files.md section 9). Reads only. Any thread, as long as no order of a channel concerns
// the job: looking tries its lock.

#include <string>
#include <vector>

#include "base/result.h"
#include "supervise/channel.h"
#include "supervise/identity.h"

namespace waybill::supervise {

// Names below DATA/jobs that may be a job's, oldest first.
Result<std::vector<JobId>> job_directories(const std::string& data_dir);

Result<FoundJob> find_job_directory(const std::string& data_dir, const JobId& job,
                                    const MachineGeneration& machine);

// Whether the directory has a start record: its command may have run. Touches nothing.
bool has_start_record(const std::string& data_dir, const JobId& job);
// Whether the main process on record lives. Touches nothing.
bool main_process_lives(const std::string& data_dir, const JobId& job,
                        const MachineGeneration& machine);

// The highest receipt number that a launch file carries; 0 when none does.
Result<std::uint64_t> newest_launched(const std::string& data_dir);

}  // namespace waybill::supervise
