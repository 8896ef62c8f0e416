#pragma once
// Removing all files of a job that has ended and is watched no more. Works on the files alone, on
// any thread; the caller decides whose go.

#include <cstdint>
#include <optional>
#include <string>

#include "base/ids.h"

namespace waybill::supervise {

// Bytes that all its files take now.
std::uint64_t job_allocated(const std::string& data_dir, const JobId& job);

// The records go last, that of the end after all others: what is left of a removal that was cut off
// is a finished job, never one that was lost or that nobody knows. It is durable when this returns.
// The bytes that went, 0 when there was no such directory; nullopt when something could not be
// removed.
std::optional<std::uint64_t> remove_job(const std::string& data_dir, const JobId& job);

}  // namespace waybill::supervise
