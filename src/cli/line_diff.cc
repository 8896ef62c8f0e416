#include "cli/line_diff.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace waybill::cli {
namespace {

using Lines = std::vector<std::string_view>;

constexpr int kStepsMax = 2000;  // lines that differ; more are not shown one by one
constexpr std::string_view kSame = "…";

Lines lines_of(std::string_view text) {
  Lines out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

struct Hunk {
  std::size_t before = 0;  // first line of each side, from 0, and how many
  std::size_t removed = 0;
  std::size_t after = 0;
  std::size_t added = 0;
};

std::size_t as_size(int value) { return static_cast<std::size_t>(value); }

// The furthest line of `before` reached on each diagonal, for each number of steps (Myers' greedy
// algorithm); empty: more than kStepsMax steps.
std::vector<std::vector<int>> trace_of(const Lines& before, const Lines& after) {
  const int n = static_cast<int>(before.size());
  const int m = static_cast<int>(after.size());
  std::vector<std::vector<int>> trace;
  std::vector<int> reach(as_size(2 * kStepsMax + 3), 0);
  const int middle = kStepsMax + 1;
  for (int d = 0; d <= kStepsMax; ++d) {
    for (int k = -d; k <= d; k += 2) {
      const bool down =
          k == -d || (k != d && reach[as_size(middle + k - 1)] < reach[as_size(middle + k + 1)]);
      int x = down ? reach[as_size(middle + k + 1)] : reach[as_size(middle + k - 1)] + 1;
      int y = x - k;
      while (x < n && y >= 0 && y < m && before[as_size(x)] == after[as_size(y)]) {
        ++x;
        ++y;
      }
      reach[as_size(middle + k)] = x;
      if (x >= n && y >= m) {
        trace.emplace_back(reach.begin() + middle - d - 1, reach.begin() + middle + d + 2);
        return trace;
      }
    }
    trace.emplace_back(reach.begin() + middle - d - 1, reach.begin() + middle + d + 2);
  }
  return {};
}

// The single steps back from the end, as hunks in the order of the text.
std::vector<Hunk> hunks_of(const Lines& before, const Lines& after) {
  const std::vector<std::vector<int>> trace = trace_of(before, after);
  if (trace.empty()) return {{0, before.size(), 0, after.size()}};
  std::vector<Hunk> out;
  int x = static_cast<int>(before.size());
  int y = static_cast<int>(after.size());
  for (int d = static_cast<int>(trace.size()) - 1; d > 0; --d) {
    const std::vector<int>& reach = trace[as_size(d - 1)];  // diagonal k at k + d
    const int k = x - y;
    const auto at = [&reach, d](int diagonal) { return reach[as_size(diagonal + d)]; };
    const bool down = k == -d || (k != d && at(k - 1) < at(k + 1));
    const int from_x = down ? at(k + 1) : at(k - 1);
    const int from_y = down ? from_x - k - 1 : from_x - k + 1;
    Hunk step{as_size(from_x), down ? 0U : 1U, as_size(from_y), down ? 1U : 0U};
    if (!out.empty() && step.before + step.removed == out.back().before &&
        step.after + step.added == out.back().after) {
      step.removed += out.back().removed;
      step.added += out.back().added;
      out.pop_back();
    }
    out.push_back(step);
    x = from_x;
    y = from_y;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

bool inside_character(std::string_view line, std::size_t at) {
  return at < line.size() && (static_cast<unsigned char>(line[at]) & 0xC0U) == 0x80U;
}

struct Shared {
  std::size_t head = 0;
  std::size_t tail = 0;
};

// What both lines begin and end with. Where something is replaced, the whole string it stands in
// counts as replaced.
Shared shared_of(std::string_view one, std::string_view other) {
  Shared out;
  const std::size_t most = std::min(one.size(), other.size());
  while (out.head < most && one[out.head] == other[out.head]) ++out.head;
  while (out.tail < most - out.head &&
         one[one.size() - 1 - out.tail] == other[other.size() - 1 - out.tail]) {
    ++out.tail;
  }
  while (out.head > 0 && inside_character(one, out.head)) --out.head;
  while (out.tail > 0 && inside_character(one, one.size() - out.tail)) --out.tail;
  const bool replaced = out.head + out.tail < one.size() && out.head + out.tail < other.size();
  if (replaced) {
    const std::size_t quote = one.substr(0, out.head).rfind('"');
    if (quote != std::string_view::npos) out.head = quote;
    const std::size_t end = one.find('"', one.size() - out.tail);
    if (end != std::string_view::npos) out.tail = one.size() - end - 1;
  }
  return out;
}

std::string elided(std::string_view line, const Shared& shared) {
  const std::string_view middle = line.substr(shared.head, line.size() - shared.head - shared.tail);
  if (middle.empty()) return std::string(line.empty() ? "" : kSame);
  return std::string(shared.head > 0 ? kSame : "") + std::string(middle) +
         std::string(shared.tail > 0 ? kSame : "");
}

std::string range_text(std::size_t first, std::size_t count) {
  // Of no lines: the line before them, as diff counts.
  return std::to_string(count == 0 ? first : first + 1) + "," + std::to_string(count);
}

void add_line(std::string& out, char sign, std::string line) {
  if (line.ends_with('\r')) line.pop_back();
  out += sign;
  out += line;
  out += '\n';
}

void add_hunk(std::string& out, const Hunk& hunk, const Lines& before, const Lines& after) {
  out += "@@ -" + range_text(hunk.before, hunk.removed) + " +" +
         range_text(hunk.after, hunk.added) + " @@\n";
  const std::size_t pairs = std::min(hunk.removed, hunk.added);
  for (std::size_t i = 0; i < hunk.removed; ++i) {
    const std::string_view line = before[hunk.before + i];
    add_line(out, '-',
             i < pairs ? elided(line, shared_of(line, after[hunk.after + i])) : std::string(line));
  }
  for (std::size_t i = 0; i < hunk.added; ++i) {
    const std::string_view line = after[hunk.after + i];
    add_line(
        out, '+',
        i < pairs ? elided(line, shared_of(before[hunk.before + i], line)) : std::string(line));
  }
}

}  // namespace

std::string line_diff(const std::optional<std::string>& before,
                      const std::optional<std::string>& after) {
  if (before == after) return "";
  const Lines old_lines = lines_of(before ? *before : std::string_view());
  const Lines new_lines = lines_of(after ? *after : std::string_view());
  std::string out;
  for (const Hunk& hunk : hunks_of(old_lines, new_lines)) {
    if (hunk.removed + hunk.added > as_size(kStepsMax)) {
      out += "@@ " + std::to_string(hunk.removed) + " lines become " + std::to_string(hunk.added) +
             ", too many to show @@\n";
      continue;
    }
    add_hunk(out, hunk, old_lines, new_lines);
  }
  return out;
}

}  // namespace waybill::cli
