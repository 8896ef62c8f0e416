#include "supervise/found_job.h"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "shim/files.h"
#include "shim/launch.h"
#include "supervise/job_dir.h"
#include "supervise/job_look.h"

namespace waybill::supervise {
namespace {

constexpr std::size_t kLaunchBytesMax = 8ULL * 1024 * 1024;
constexpr std::size_t kCommandBytesMax = 4ULL * 1024 * 1024;

Error unreadable(const std::string& what, int error) {
  return Error{ErrorCode::unavailable,
               what + " cannot be read: " + std::string(strerrordesc_np(error)) + "."};
}

Millis millis(std::uint64_t value) { return Millis(static_cast<Millis::rep>(value)); }

// Shell, command and argv from the arguments of the launch file, as launch_files.cc wrote them.
bool take_program(const shim::Launch& file, const JobDir& dir, LaunchOrder& order) {
  std::vector<const char*> args(file.arg_count + 1);
  shim::split_args(file, args.data());
  args.pop_back();
  const auto wrapper = static_cast<std::ptrdiff_t>(file.wrapper_args);
  order.wrapper.assign(args.begin(), args.begin() + wrapper);
  const std::vector<std::string> rest(args.begin() + wrapper, args.end());
  if (!file.shell) {
    order.argv = rest;
    return true;
  }
  if (rest.size() < 2) return false;
  order.shell = rest[0];
  if (rest[1] == "-c") {
    order.command = rest.back();
    return rest.size() > 2;
  }
  return dir.read(shim::kCommand, kCommandBytesMax, order.command) == 0;
}

// "" when the order is complete; otherwise why it is not.
std::string take_launch(const JobDir& dir, const JobId& job, LaunchOrder& order) {
  std::string text;
  if (const int error = dir.read(shim::kLaunch, kLaunchBytesMax, text)) {
    return std::string("its launch file cannot be read: ") + strerrordesc_np(error);
  }
  shim::Launch file;
  if (shim::parse_launch(text, file) != shim::LaunchError::none) {
    return "its launch file does not check";
  }
  if (file.job != job.str()) return "its launch file is another job's";
  if (file.session.empty()) return "its launch file is of an older version and names no owner";
  const auto owner = core::from_word<core::OwnerKind>(file.owner);
  const auto wake = core::from_word<core::WakePolicy>(file.wake);
  if (!owner || !wake || file.tenant.empty()) return "its launch file names no owner";
  order.job = job;
  order.node_seq = file.node_seq;
  Origin& origin = order.origin;
  origin.scope.owner = {TenantId(std::string(file.tenant)), SessionId(std::string(file.session))};
  if (!file.turn.empty()) origin.scope.turn = TurnId(std::string(file.turn));
  origin.scope.sandbox = SandboxId(std::string(file.sandbox));
  origin.scope.generation = GenerationId(std::string(file.generation));
  origin.owner = *owner;
  origin.wake = *wake;
  origin.label = file.label;
  origin.key = file.key;
  origin.fingerprint = file.fingerprint;
  origin.incarnation = file.incarnation;
  origin.accepted_at = WallTime(millis(file.accepted_ms));
  order.cwd = file.cwd;
  order.grace = millis(file.grace_ms);
  if (file.deadline_ms > 0) order.deadline = millis(file.deadline_ms);
  order.cap_bytes = file.cap_bytes;
  order.head_bytes = file.head_bytes;
  order.leftovers = file.keep_leftovers ? core::LeftoverPolicy::keep : core::LeftoverPolicy::kill;
  order.stdin_policy = file.open_stdin ? core::StdinPolicy::open : core::StdinPolicy::null;
  order.pty = file.pty;
  order.umask = static_cast<unsigned>(file.umask);
  if (!take_program(file, dir, order)) return "its command cannot be read";
  return {};
}

std::optional<StopWish> wish_of(const JobDir& dir, const JobId& job, const JobLook& look) {
  std::string text;
  if (dir.read(shim::kStopReq, shim::kRecordBytesMax + 1, text) != 0) {
    // A daemon that stops what a lost supervisor left tells so in the record of the end alone.
    const bool stopped = look.exit.good() && look.exit.value.ended_by == core::EndedBy::stop;
    if (!stopped) return std::nullopt;
    return StopWish{look.exit.value.ended_at.value_or(WallTime{}), "unknown",
                    "the end on record is that of a stop"};
  }
  const Read<StopRequestRecord> record = parse_stop_request(text, job.str());
  // Its existence is the wish, whatever has become of its words.
  if (!record.good()) return StopWish{{}, "unknown", "the stop wish on record does not check"};
  return StopWish{record.value.at, record.value.actor, record.value.reason};
}

}  // namespace

Result<std::vector<JobId>> job_directories(const std::string& data_dir) {
  const std::string path = data_dir + "/jobs";
  std::vector<JobId> jobs;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path.c_str()), ::closedir);
  if (!dir) {
    if (errno == ENOENT) return jobs;
    return fail(unreadable(path, errno));
  }
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) break;
    if (is_job_dir_name(entry->d_name)) jobs.emplace_back(entry->d_name);
  }
  if (errno != 0) return fail(unreadable(path, errno));
  std::ranges::sort(jobs);  // ids begin with the time
  return jobs;
}

Result<FoundJob> find_job_directory(const std::string& data_dir, const JobId& job,
                                    const MachineGeneration& machine) {
  FoundJob found{job, job_dir_path(data_dir, job)};
  const JobLook look = look_at({&data_dir, job, &machine, false});
  if (look.error != 0) return fail(unreadable(found.path, look.error));
  found.facts.job = job;
  if (!look.dir) return found;
  found.there = true;
  found.started = look.start.state != RecordState::absent ||
                  look.exit.state != RecordState::absent ||
                  look.final_record.state != RecordState::absent;
  found.runs = look.lock_held || look.supervision == core::Supervision::orphaned;
  found.told = look.final_record.state != RecordState::absent ||
               look.supervision == core::Supervision::generation_gone;
  found.facts = facts_of(look);
  found.stop = wish_of(*look.dir, job, look);
  LaunchOrder order;
  found.why = take_launch(*look.dir, job, order);
  if (found.why.empty()) found.launch = std::move(order);
  return found;
}

bool has_start_record(const std::string& data_dir, const JobId& job) {
  int error = 0;
  const auto dir = JobDir::open(data_dir, job, error);
  return dir && dir->probe(shim::kStart) == 0;
}

bool main_process_lives(const std::string& data_dir, const JobId& job,
                        const MachineGeneration& machine) {
  int error = 0;
  const auto dir = JobDir::open(data_dir, job, error);
  std::string text;
  if (!dir || dir->read(shim::kStart, shim::kRecordBytesMax + 1, text) != 0) return false;
  const Read<StartRecord> start = parse_start(text, job.str());
  return start.good() && start.value.generation == machine && same_process(start.value.main);
}

Result<std::uint64_t> newest_launched(const std::string& data_dir) {
  TRY_ASSIGN(const std::vector<JobId> jobs, job_directories(data_dir));
  std::uint64_t newest = 0;
  for (const JobId& job : jobs) {
    int error = 0;
    const auto dir = JobDir::open(data_dir, job, error);
    std::string text;
    if (!dir || dir->read(shim::kLaunch, kLaunchBytesMax, text) != 0) continue;
    shim::Launch file;
    if (shim::parse_launch(text, file) == shim::LaunchError::none) {
      newest = std::max(newest, file.node_seq);
    }
  }
  return newest;
}

}  // namespace waybill::supervise
