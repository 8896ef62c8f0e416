#pragma once
// What outputs take on the disk, and giving it back. Works on the files alone, on any thread; the
// caller decides whose output goes.

#include <cstdint>
#include <optional>
#include <string>

#include "base/ids.h"
#include "core/facts.h"

namespace waybill::supervise {

struct DiskSpace {
  std::uint64_t total = 0;  // 0: not known
  std::uint64_t free = 0;   // for us, without what is reserved for root
};

DiskSpace disk_space(const std::string& data_dir);

// What the job's output file takes now; 0 when there is none.
std::uint64_t output_allocated(const std::string& data_dir, const JobId& job);

// Removes the output of a job that has ended. True when it is gone.
bool remove_output(const std::string& data_dir, const JobId& job);

// Shortens the output of a job that has ended to about `cap` bytes, head and tail. What is kept
// then, by its files, also when there was nothing to give back; nullopt when that cannot be told
// (no file, an error).
std::optional<core::OutputFacts> shorten_output(const std::string& data_dir, const JobId& job,
                                                std::uint64_t cap);

}  // namespace waybill::supervise
