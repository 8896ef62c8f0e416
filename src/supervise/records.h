#pragma once
// Reads the records of a job directory (docs/files.md): checksum first, then strictly, field by
// field. What does not check is `torn`; nothing is guessed from it. Stateless; any thread.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/facts.h"
#include "core/job.h"
#include "supervise/identity.h"
#include "supervise/supervision.h"

namespace waybill::supervise {

template <class T>
struct Read {
  RecordState state = RecordState::absent;
  T value;

  bool good() const { return state == RecordState::good; }
};

struct StartRecord {
  ProcessIdentity shim;
  ProcessIdentity main;
  int session = 0;
  MachineGeneration generation;
  bool captured = false;
  std::string cgroup;  // entered and verified; "" none, and in records from before there were any
  std::uint64_t cgroupns = 0;  // the cgroup namespace in which that path means it; 0 not known
  WallTime started_at{};
  std::int64_t started_mono_ns = 0;
};

struct ExitRecord {
  bool by_daemon = false;  // "supervisor":"lost"
  core::Exit exit;
  core::EndedBy ended_by = core::EndedBy::itself;
  std::optional<WallTime> ended_at;
  std::optional<Millis> duration;
  core::UsageFacts usage;
  bool usage_known = false;
  bool oom = false;
};

struct FinalRecord {
  bool by_daemon = false;
  core::Proof proof = core::Proof::none;
  core::OutputFacts output;
  bool keep = false;
  std::vector<core::ProcessNote> leftovers;
  std::vector<ProcessIdentity> leftover_ids;  // the same ones
};

struct LeftoverRecord {
  bool by_daemon = false;
  bool kept = false;
  std::vector<core::ProcessNote> survived;
  std::vector<ProcessIdentity> survived_ids;  // the same ones
};

struct SurvivorRecord {
  bool stuck = false;
  std::vector<core::ProcessNote> survivors;
};

struct StopRequestRecord {
  WallTime at{};
  std::string actor;
  std::string reason;
};

// `text` is a whole file; `job` the name that it must carry.
Read<StartRecord> parse_start(std::string_view text, std::string_view job);
Read<ExitRecord> parse_exit(std::string_view text, std::string_view job);
Read<FinalRecord> parse_final(std::string_view text, std::string_view job);
Read<LeftoverRecord> parse_leftovers(std::string_view text, std::string_view job);
Read<SurvivorRecord> parse_survivors(std::string_view text, std::string_view job);
Read<StopRequestRecord> parse_stop_request(std::string_view text, std::string_view job);

}  // namespace waybill::supervise
