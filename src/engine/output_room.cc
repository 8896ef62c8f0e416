#include "engine/output_room.h"

#include <algorithm>
#include <map>
#include <utility>

namespace waybill::engine {
namespace {

// Rows looked at in one transaction: removing is quick, shortening waits for the disk twice a file.
constexpr int kExpiredAtOnce = 16;
constexpr int kShortenedAtOnce = 4;
constexpr int kOwnersAtOnce = 64;
constexpr std::uint64_t kShortest = 256ULL * 1024;  // no output is shortened below
constexpr std::uint64_t kFloorMost = 512ULL * 1024 * 1024;
constexpr std::uint64_t kFloorOneOf = 50;
constexpr Millis kSoon{200};
constexpr int kLaunchTries = 16;  // a halving each

std::uint64_t half_of(std::uint64_t bytes) { return std::max(bytes / 2, kShortest); }

std::string mebibytes(std::uint64_t bytes) {
  constexpr std::uint64_t kMebi = 1024 * 1024;
  return std::to_string(bytes / kMebi) + "." + std::to_string(bytes % kMebi * 10 / kMebi) + " MiB";
}

}  // namespace

std::uint64_t floor_in_force(const Settings& settings, const supervise::DiskSpace& space) {
  if (settings.free_space_floor_bytes != 0) return settings.free_space_floor_bytes;
  return std::min(kFloorMost, space.total / kFloorOneOf);
}

OutputRoom::OutputRoom(const Parts& parts, std::function<void(const Error&)> uncertain)
    : parts_(parts),
      uncertain_(std::move(uncertain)),
      last_(parts_.clock.mono()),
      due_(last_ + parts_.settings.disk_check_interval) {}

Result<std::vector<OutputRoom::Live>> OutputRoom::measure(const std::optional<core::Owner>& owner) {
  TRY_ASSIGN(const std::vector<store::RunningJob> jobs,
             store::running_jobs(parts_.database, owner));
  std::vector<Live> live;
  live.reserve(jobs.size());
  for (const store::RunningJob& job : jobs) {
    live.push_back({job, parts_.channel.output_allocated(job.job)});
  }
  return live;
}

Result<bool> OutputRoom::pressed(Pressure& pressure) {
  if (!pressure.owner) {
    // Measured once: what was given back may not be free yet, and must not be given twice.
    if (!pressure.space) pressure.space = parts_.channel.disk_space();
    const supervise::DiskSpace& space = *pressure.space;
    const std::uint64_t free = space.free + pressure.given + pressure.asked;
    return space.total != 0 && free < floor_in_force(parts_.settings, space);
  }
  TRY_ASSIGN(const std::uint64_t kept, store::output_use(parts_.database, *pressure.owner));
  const std::uint64_t used = kept + pressure.live;
  return used > parts_.settings.session_disk_quota_bytes + pressure.asked;
}

Result<void> OutputRoom::in_transaction(const std::function<Result<void>()>& change, Cut cut) {
  TRY(parts_.database.begin());
  auto done = change();
  if (done) {
    crash_point(cut.before);
    done = parts_.database.commit();
    crash_point(cut.after);
    if (!done && !parts_.database.wrote_nothing()) uncertain_(done.error());
  }
  if (!done) parts_.database.rollback();
  return done;
}

Result<void> OutputRoom::expire_some(Pressure& pressure) {
  TRY_ASSIGN(const std::vector<store::OutputRow> rows,
             store::expirable_outputs(parts_.database, pressure.owner, kExpiredAtOnce));
  std::size_t gone = 0;
  std::uint64_t bytes = 0;
  for (store::OutputRow row : rows) {
    TRY_ASSIGN(const bool still, pressed(pressure));
    if (!still) break;
    if (!parts_.channel.remove_output(row.job)) continue;
    crash_point("room.expire.after_remove");
    const std::uint64_t before = std::exchange(row.kept_bytes, 0);
    row.expired_at = parts_.clock.wall();
    row.expired_why = pressure.why;
    TRY(store::update_output(parts_.database, row, before));
    ++gone;
    bytes += before;
    pressure.given += before;
  }
  more_ = more_ || (gone > 0 && rows.size() == kExpiredAtOnce);
  if (gone > 0) {
    parts_.warn("the output of " + std::to_string(gone) + " finished job(s) has expired, " +
                mebibytes(bytes) + ": " + pressure.why);
  }
  return {};
}

Result<void> OutputRoom::shorten_some(Pressure& pressure) {
  TRY_ASSIGN(const std::vector<store::OutputRow> rows,
             store::largest_outputs(parts_.database, pressure.owner, kShortest, kShortenedAtOnce));
  bool shortened = false;
  for (store::OutputRow row : rows) {
    TRY_ASSIGN(const bool still, pressed(pressure));
    if (!still) return {};
    const auto kept = parts_.channel.shorten_output(row.job, half_of(row.kept_bytes));
    if (!kept || kept->kept_bytes >= row.kept_bytes) continue;
    crash_point("room.shorten.after_file");
    const std::uint64_t before = std::exchange(row.kept_bytes, kept->kept_bytes);
    row.gaps = kept->gaps;
    TRY(store::update_output(parts_.database, row, before));
    pressure.given += before - row.kept_bytes;
    shortened = true;
  }
  more_ = more_ || shortened;
  return {};
}

Result<void> OutputRoom::ask_running(Pressure& pressure, std::vector<Live>& live) {
  std::ranges::sort(live, [](const Live& a, const Live& b) { return a.bytes > b.bytes; });
  for (const Live& one : live) {
    TRY_ASSIGN(const bool still, pressed(pressure));
    if (!still || one.bytes <= kShortest * 2) return {};
    const std::uint64_t cap = half_of(one.bytes);
    parts_.channel.lower_output_cap(one.job.job, cap);
    pressure.asked += one.bytes - cap;
  }
  return {};
}

Result<void> OutputRoom::relieve(Pressure& pressure, std::vector<Live> live) {
  TRY_ASSIGN(bool still, pressed(pressure));
  if (!still) return {};
  TRY(in_transaction([&] { return expire_some(pressure); },
                     {"room.expire.before_commit", "room.expire.after_commit"}));
  TRY_ASSIGN(still, pressed(pressure));
  if (!still || more_) return {};
  TRY(in_transaction([&] { return shorten_some(pressure); },
                     {"room.shorten.before_commit", "room.shorten.after_commit"}));
  return ask_running(pressure, live);
}

void OutputRoom::check() {
  more_ = false;
  const auto look = [&]() -> Result<void> {
    TRY_ASSIGN(const std::vector<Live> live, measure(std::nullopt));
    std::map<core::Owner, std::vector<Live>> of;
    for (const Live& one : live) of[one.job.owner].push_back(one);
    TRY_ASSIGN(const std::vector<store::OutputUse> uses,
               store::output_uses_above(parts_.database, parts_.settings.session_disk_quota_bytes,
                                        kOwnersAtOnce));
    for (const store::OutputUse& use : uses) of.try_emplace(use.owner);
    for (const auto& [owner, jobs] : of) {
      Pressure pressure{owner, "session_quota"};
      for (const Live& one : jobs) pressure.live += one.bytes;
      TRY(relieve(pressure, jobs));
    }
    Pressure everybody{std::nullopt, "free_space"};
    return relieve(everybody, live);
  };
  if (auto looked = look(); !looked) {
    // Once, not every few seconds.
    if (std::exchange(trouble_, looked.error().message) != trouble_) {
      parts_.warn("room for output could not be made: " + trouble_);
    }
    more_ = false;
  } else {
    trouble_.clear();
  }
  // What was too much for one transaction goes on at once; whoever else waits comes in between.
  last_ = parts_.clock.mono();
  due_ = more_ ? last_ : last_ + parts_.settings.disk_check_interval;
  asked_ = more_;
}

void OutputRoom::check_soon() {
  asked_ = true;
  due_ = std::min(due_, last_ + kSoon);
}

std::optional<Millis> OutputRoom::due_in(bool jobs_run) const {
  if (!asked_ && !jobs_run) return std::nullopt;
  return std::max(std::chrono::ceil<Millis>(due_ - parts_.clock.mono()), Millis(0));
}

std::string OutputRoom::refusal(const core::Owner& owner, std::uint64_t used) const {
  return "Session " + owner.session.str() + " keeps " + mebibytes(used) +
         " of output, and its quota (session_disk_quota_bytes) is " +
         mebibytes(parts_.settings.session_disk_quota_bytes) +
         ". What remains belongs to running jobs and to results that nobody took: take those with "
         "`waybill inbox`, then try again.";
}

Result<void> OutputRoom::before_launch(const core::Owner& owner) {
  TRY_ASSIGN(std::vector<Live> live, measure(owner));
  Pressure session{owner, "session_quota"};
  for (const Live& one : live) session.live += one.bytes;
  TRY_ASSIGN(bool still, make_room(session, live));
  if (still) {
    check_soon();
    TRY_ASSIGN(const std::uint64_t kept, store::output_use(parts_.database, owner));
    return fail(ErrorCode::store_full, refusal(owner, kept + session.live));
  }
  Pressure disk{std::nullopt, "free_space"};
  TRY_ASSIGN(still, pressed(disk));
  if (!still) return {};
  TRY_ASSIGN(live, measure(std::nullopt));
  TRY_ASSIGN(still, make_room(disk, live));
  if (!still) return {};
  check_soon();
  const supervise::DiskSpace space = parts_.channel.disk_space();
  return fail(ErrorCode::store_full,
              "Only " + mebibytes(space.free) + " are free where " + parts_.data_dir + " is, and " +
                  mebibytes(floor_in_force(parts_.settings, space)) +
                  " stay free (free_space_floor_bytes). Nothing was started; free some space on "
                  "that disk, then try again.");
}

// As far as that can be done at once; true when it was not enough.
Result<bool> OutputRoom::make_room(Pressure& pressure, const std::vector<Live>& live) {
  TRY_ASSIGN(bool still, pressed(pressure));
  more_ = true;
  for (int i = 0; i < kLaunchTries && still && more_; ++i) {
    more_ = false;
    pressure.asked = 0;  // what running jobs give back before long is not there yet
    if (auto relieved = relieve(pressure, live); !relieved) {
      // A store that cannot be written has its own answer.
      if (relieved.error().code == ErrorCode::state_corrupt) return fail(relieved.error());
      break;
    }
    pressure.asked = 0;
    TRY_ASSIGN(still, pressed(pressure));
  }
  more_ = false;
  if (still || !pressure.space) return still;
  // A launch is accepted on what there is, not on what there should be.
  pressure.space.reset();
  pressure.given = 0;
  return pressed(pressure);
}

}  // namespace waybill::engine
