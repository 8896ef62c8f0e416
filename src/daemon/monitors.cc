#include "daemon/monitors.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <utility>

#include "supervise/output_reader.h"
#include "text/line_pattern.h"
#include "text/line_scan.h"
#include "text/utf8.h"

namespace waybill::daemon {
namespace {

constexpr std::size_t kChunk = 64 * 1024;
constexpr int kChunksPerLook = 16;  // then other jobs have their turn
constexpr std::size_t kQueueMax = 100'000;

MonoTime now() { return std::chrono::steady_clock::now(); }

// The first `max` bytes, whole characters.
std::string cut(std::string_view line, std::size_t max) {
  if (line.size() <= max) return std::string(line);
  std::size_t end = max;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) --end;
  return std::string(line.substr(0, end)) + "…";
}

// What one monitor has found and not told yet.
struct Pending {
  std::uint64_t lines = 0;
  std::uint64_t untold = 0;
  std::uint64_t missed = 0;
  std::deque<std::string> texts;  // the newest ones

  void add(std::string_view line) {
    ++lines;
    texts.push_back(cut(line, Monitors::kLineTold));
    if (texts.size() <= Monitors::kLinesTold) return;
    texts.pop_front();
    ++untold;
  }
};

struct Looker {
  core::Monitor monitor;
  text::LinePattern pattern;
  Pending found;  // since the last look was taken over
};

}  // namespace

// Belongs to whoever has it in hand: the worker during a look, the loop between two of them.
struct Monitors::Scan {
  Scan(std::string dir, std::uint64_t offset) : reader(std::move(dir)), lines(offset) {}

  bool look();

  supervise::OutputReader reader;
  text::LineScan lines;
  std::vector<Looker> lookers;
};

// True when there is more to look at.
bool Monitors::Scan::look() {
  for (int i = 0; i < kChunksPerLook; ++i) {
    const auto piece = reader.read(lines.offset(), kChunk);
    if (!piece || (piece->bytes.empty() && !piece->gap)) return false;
    if (piece->gap) {
      for (Looker& looker : lookers) looker.found.missed += piece->next_offset - piece->offset;
      lines.skip_to(piece->next_offset);
      continue;
    }
    // A line that one monitor was told of before the daemon ended is not for it again.
    const auto use = [&](std::string_view line) {
      for (Looker& looker : lookers) {
        if (lines.line_start() < looker.monitor.read_to) continue;
        if (looker.pattern.fits(line)) looker.found.add(line);
      }
    };
    lines.push(piece->bytes, use);
  }
  return true;
}

struct Monitors::Entry {
  struct State {
    core::Monitor monitor;
    Pending pending;
    MonoTime next_at{};
  };
  OutputWatch::Number number = 0;
  std::shared_ptr<Scan> scan;
  std::vector<State> states;
  std::unique_ptr<Timer> timer;
  bool looking = false;
  bool again = false;
};

Monitors::Monitors(Loop& loop, OutputWatch& watch, std::string jobs_dir, Hooks hooks)
    : loop_(loop), watch_(watch), jobs_dir_(std::move(jobs_dir)), hooks_(std::move(hooks)) {}

Monitors::~Monitors() { stop(); }

void Monitors::stop() {
  if (worker_) worker_->stop();
}

void Monitors::set(const JobId& job, const std::vector<core::Monitor>& monitors) {
  const auto known = entries_.find(job);
  if (known != entries_.end()) {
    if (!monitors.empty()) return;
    watch_.remove(known->second->number);
    entries_.erase(known);
    return;
  }
  std::uint64_t from = UINT64_MAX;
  std::vector<Looker> lookers;
  auto entry = std::make_unique<Entry>();
  for (const core::Monitor& monitor : monitors) {
    if (monitor.events >= monitor.events_max) continue;
    auto pattern = text::LinePattern::compile(monitor.pattern);
    if (!pattern) {
      hooks_.warn("job " + job.str() + " is not monitored: " + pattern.error().message);
      continue;
    }
    from = std::min(from, monitor.read_to);
    entry->states.push_back({monitor, {}, {}});
    lookers.push_back({monitor, std::move(*pattern), {}});
  }
  if (lookers.empty()) return;
  if (!worker_) {
    worker_ = std::make_unique<Worker>(kQueueMax, [warn = hooks_.warn](const std::string& what) {
      warn("a monitor met something that cannot happen: " + what);
    });
  }
  entry->scan = std::make_shared<Scan>(jobs_dir_ + "/" + job.str(), from);
  entry->scan->lookers = std::move(lookers);
  entry->number = watch_.add(job, [this, job] { look(job); });
  entries_.emplace(job, std::move(entry));
  look(job);
}

void Monitors::look(const JobId& job) {
  const auto found = entries_.find(job);
  if (found == entries_.end()) return;
  Entry& entry = *found->second;
  entry.again = true;
  if (entry.looking) return;
  entry.again = false;
  entry.looking = worker_->post([this, job, scan = entry.scan] {
    const bool more = scan->look();
    loop_.post([this, job, scan, more] {
      const auto still = entries_.find(job);
      if (still != entries_.end() && still->second->scan == scan) on_looked(job, more);
    });
  });
}

void Monitors::on_looked(const JobId& job, bool more) {
  Entry& entry = *entries_.find(job)->second;
  entry.looking = false;
  for (std::size_t i = 0; i < entry.states.size(); ++i) {
    Pending found = std::exchange(entry.scan->lookers[i].found, {});
    Pending& pending = entry.states[i].pending;
    pending.lines += found.lines;
    pending.untold += found.untold;
    pending.missed += found.missed;
    for (std::string& text : found.texts) pending.texts.push_back(std::move(text));
    while (pending.texts.size() > kLinesTold) {
      pending.texts.pop_front();
      ++pending.untold;
    }
  }
  tell_due(job, entry);
  if (entry.states.empty()) return set(job, {});
  if (more || entry.again) look(job);
}

// Tells what may be told now and sets the clock for the rest.
void Monitors::tell_due(const JobId& job, Entry& entry) {
  std::optional<MonoTime> next;
  for (std::size_t i = 0; i < entry.states.size();) {
    Entry::State& state = entry.states[i];
    const bool due = state.next_at <= now();
    if (state.pending.lines > 0 && due) {
      core::MonitorFound found{job,
                               state.monitor.number,
                               entry.scan->lines.line_start(),
                               state.pending.lines,
                               state.pending.untold,
                               state.pending.missed,
                               {}};
      for (const std::string& text : state.pending.texts) found.text += text + "\n";
      state.pending = {};
      state.next_at = now() + Millis(60'000 / static_cast<Millis::rep>(state.monitor.per_minute));
      hooks_.tell(std::move(found));
      if (++state.monitor.events >= state.monitor.events_max) {
        entry.scan->lookers.erase(entry.scan->lookers.begin() + static_cast<std::ptrdiff_t>(i));
        entry.states.erase(entry.states.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
    } else if (state.pending.lines > 0) {
      next = next ? std::min(*next, state.next_at) : state.next_at;
    }
    ++i;
  }
  entry.timer.reset();
  if (!next) return;
  const Millis delay = std::max(std::chrono::ceil<Millis>(*next - now()), Millis(1));
  entry.timer = loop_.after(delay, [this, job] {
    const auto found = entries_.find(job);
    // During a look the lookers are the worker's; its end comes here again.
    if (found != entries_.end() && !found->second->looking) {
      tell_due(job, *found->second);
      if (found->second->states.empty()) set(job, {});
    }
  });
}

}  // namespace waybill::daemon
