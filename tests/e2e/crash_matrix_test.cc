// The whole crash matrix, by name only (`./test crash`): on each way, the daemon is killed at every
// passage of every point; once alone, once with all supervisors killed before the next one looks,
// and once with a next one that dies in its recovery. The way itself says which points it passes:
// it is gone once without a death.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>

#include "base/crash_point.h"
#include "e2e/journey.h"

namespace waybill::e2e {
namespace {

// Of the same point on one way; what comes by more often does the same thing again.
constexpr int kPassagesMost = 4;

// Where the next daemon dies, one after the other.
constexpr std::array kInRecovery{"start.after_lock",  "start.after_store",  "open.before_commit",
                                 "open.after_commit", "open.after_effects", "start.after_socket",
                                 "supervise.attached"};

Journey::Options options_of(const Way& way) {
  Journey::Options options;
  options.settings = way.settings;
  options.loses_supervisor = way.loses_supervisor;
  return options;
}

// How often each point is passed when nobody dies.
std::map<std::string, int> passages_of(const Way& way) {
  TempDir temp;
  const std::string trace = temp.path() + "/trace";
  Journey::Options options = options_of(way);
  options.envs = {{"WAYBILL_CRASH_TRACE=" + trace}};
  Journey journey(std::move(options));
  way.go(journey);
  journey.audit();
  std::istringstream lines(read_file(trace));
  std::map<std::string, int> passages;
  for (std::string line; std::getline(lines, line);) ++passages[line];
  return passages;
}

struct Death {
  std::string point;
  int passage = 1;
  bool supervisors = false;
  std::string_view successor = {};  // where the next daemon dies
};

void PrintTo(const Death& death, std::ostream* out) {
  *out << death.point << ':' << death.passage << (death.supervisors ? " with supervisors" : "")
       << ' ' << death.successor;
}

void die(const Way& way, const Death& death) {
  SCOPED_TRACE(::testing::PrintToString(death));
  Journey::Options options = options_of(way);
  options.lose_supervisors = death.supervisors;
  options.envs = {{"WAYBILL_CRASH=" + death.point + ":" + std::to_string(death.passage)}};
  if (!death.successor.empty()) {
    options.envs.push_back({"WAYBILL_CRASH=" + std::string(death.successor)});
  }
  Journey journey(std::move(options));
  way.go(journey);
  journey.settle();
  journey.audit();
}

class CrashMatrix : public ::testing::TestWithParam<Way> {
 protected:
  // Of the moments before a job exists there is only one way.
  static bool is_a_beginning(const std::string& point, int passage) {
    return point.starts_with("start.") || point.starts_with("open.") ||
           point.starts_with("engine.attach.") ||
           (point.starts_with("engine.turn.") && passage == 1);
  }

  std::vector<Death> deaths() const {
    std::vector<Death> all;
    const bool first = GetParam().name == ways().front().name;
    for (const auto& [point, passages] : passages_of(GetParam())) {
      for (int passage = 1; passage <= std::min(passages, kPassagesMost); ++passage) {
        if (!first && is_a_beginning(point, passage)) continue;
        all.push_back({point, passage});
      }
    }
    return all;
  }
};

TEST_P(CrashMatrix, I2_I3_I4_I10_daemon) {
  for (const Death& death : deaths()) {
    die(GetParam(), death);
    if (HasFailure()) return;
  }
}

TEST_P(CrashMatrix, I2_I7_I9_I10_daemon_and_supervisors) {
  for (Death death : deaths()) {
    death.supervisors = true;
    die(GetParam(), death);
    if (HasFailure()) return;
  }
}

TEST_P(CrashMatrix, I2_I3_I4_I10_daemon_and_the_next_one_in_its_recovery) {
  std::size_t next = 0;
  for (Death death : deaths()) {
    death.successor = kInRecovery[next++ % kInRecovery.size()];
    die(GetParam(), death);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, CrashMatrix, ::testing::ValuesIn(ways()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace waybill::e2e
