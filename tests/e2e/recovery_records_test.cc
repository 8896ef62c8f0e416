// Records that cannot be written, cannot be read, or are not there; and no success, no second run
// and no lost end because of it.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "e2e/recovery_fixture.h"
#include "e2e/small_disk.h"

namespace waybill::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

// ---- a full disk -------------------------------------------------------------------------------

struct HasDisk {
  SmallDisk disk;
};

class RecoveryDiskTest : private HasDisk, public RecoveryTest {
 protected:
  RecoveryDiskTest() : RecoveryTest(on(HasDisk::disk)) {}
  static Daemon::Options on(SmallDisk& disk) {
    Daemon::Options options;
    if (disk.mounted()) options.data_dir = disk.path() + "/data";
    options.arguments = {"--set", "free_space_floor_bytes=1"};
    return options;
  }
  SmallDisk& disk() { return HasDisk::disk; }
  void SetUp() override {
    if (!disk().mounted()) GTEST_SKIP() << disk().why();
  }
};

TEST_F(RecoveryDiskTest, I10_without_room_for_the_start_record_nothing_runs_until_there_is) {
  start_with_supervisors_that_stop_at("shim.before_start");
  const std::string id = accept("exit 3");
  const pid_t shim = stopped_supervisor();
  disk().fill();
  ::kill(shim, SIGCONT);
  EXPECT_TRUE(await_end(shim));
  EXPECT_FALSE(fs::exists(file(id, "start.json")));
  expect_runs(id, 0);
  disk().free();
  const json::value job = heard_once(id);
  // Started later, or not at all; never twice and never unrecorded.
  const bool ran = text_at(job, "exit.kind") == "exited";
  if (!ran) {
    EXPECT_EQ(text_at(job, "exit.kind"), "not_started") << json::serialize(job);
    EXPECT_EQ(number_at(job, "exit.errno"), ENOSPC);
  }
  expect_runs(id, ran ? 1 : 0);
}

TEST_F(RecoveryDiskTest, I7_leftovers_are_killed_though_their_record_has_no_room) {
  start_with_supervisors_that_stop_at("shim.leftovers_term");
  const std::string id =
      accept("(trap '' TERM; exec sleep 300) & " + bell.command("$!") + "; exit 3");
  const auto left = bell.word();
  ASSERT_TRUE(left);
  const pid_t shim = stopped_supervisor();
  disk().fill();
  ::kill(shim, SIGCONT);
  EXPECT_TRUE(await_end(std::stoi(*left)));
  disk().free();
  EXPECT_EQ(number_at(heard_once(id), "exit.code"), 3);
  EXPECT_TRUE(eventually([&] { return !at(daemon.show(id), "leftovers_kept").is_null(); }));
}

// ---- torn and missing records ------------------------------------------------------------------

enum class Hurt { torn, missing };

struct Damage {
  const char* record;
  Hurt hurt;
  const char* moment;  // "gate": nothing has run; "running"; "ended"
  bool exit_known;     // afterwards
};

void PrintTo(const Damage& row, std::ostream* out) { *out << row.record << " " << row.moment; }

const Damage kDamages[] = {
    {"launch", Hurt::torn, "gate", true},          {"launch", Hurt::missing, "gate", true},
    {"launch.env", Hurt::torn, "gate", true},      {"launch", Hurt::torn, "running", false},
    {"start.json", Hurt::torn, "running", false},  {"start.json", Hurt::missing, "running", false},
    {"start.json", Hurt::torn, "ended", true},     {"start.json", Hurt::missing, "ended", true},
    {"exit.json", Hurt::torn, "ended", false},     {"exit.json", Hurt::missing, "ended", false},
    {"final.json", Hurt::torn, "ended", false},    {"final.json", Hurt::missing, "ended", true},
    {"leftovers.json", Hurt::torn, "ended", true}, {"leftovers.json", Hurt::missing, "ended", true},
};

class RecordTest : public RecoveryTest, public ::testing::WithParamInterface<Damage> {
 protected:
  void hurt(const std::string& id) const {
    const std::string name = file(id, GetParam().record);
    const std::string text = read_file(name);
    if (GetParam().hurt == Hurt::missing) {
      fs::remove(name);
    } else {
      std::ofstream(name, std::ios::trunc) << text.substr(0, text.size() / 2);
    }
  }
};

// Daemon and supervisor are gone; what they left is damaged.
TEST_P(RecordTest, I10_I12_a_record_that_cannot_be_read_is_no_success_and_no_second_run) {
  const Damage& row = GetParam();
  const std::string moment = row.moment;
  std::string id;
  if (moment == "gate") {
    start_with_supervisors_that_stop_at("shim.before_start");
    id = accept("exit 3");
    const pid_t shim = stopped_supervisor();
    daemon.kill_9();
    kill_9(shim);
  } else if (moment == "running") {
    daemon.start();
    id = held_job();
    daemon.kill_9();
    kill_9(supervisor());
    kill_9(main_);
  } else {
    daemon.start();
    id = accept(bell.command("$$") + "; sleep 300 & " + gate.command() + "; exit 3");
    ASSERT_TRUE(bell.word());
    const pid_t shim = supervisor();
    daemon.kill_9();
    gate.open();
    EXPECT_TRUE(await_end(shim));
    EXPECT_TRUE(fs::exists(file(id, "leftovers.json")));
  }
  hurt(id);
  daemon.start();
  const json::value job = heard_once(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(text_at(job, "status"), "failed");
  if (row.exit_known) {
    EXPECT_EQ(number_at(job, "exit.code"), 3);
  } else {
    expect_lost(job);
    EXPECT_TRUE(at(job, "exit.code").is_null());
  }
  expect_runs(id, 1);
}

INSTANTIATE_TEST_SUITE_P(Records, RecordTest, ::testing::ValuesIn(kDamages), [](const auto& row) {
  std::string name = std::string(row.param.record) +
                     (row.param.hurt == Hurt::torn ? "_torn_" : "_missing_") + row.param.moment;
  std::replace_if(name.begin(), name.end(), [](char c) { return c == '.'; }, '_');
  return name;
});

// The row does not know of the start either: the daemon died before it had written that down. What
// the command took along when it began still shows.
TEST_F(RecoveryTest, I10_a_start_record_is_not_the_only_witness) {
  daemon.set_daemon_env({"WAYBILL_CRASH=engine.facts.before_commit"});
  daemon.start();
  daemon.set_daemon_env({});
  const std::string id = held_job();
  daemon.wait_for_end();
  EXPECT_TRUE(daemon.crashed());
  kill_9(supervisor());
  kill_9(main_);
  fs::remove(file(id, "start.json"));
  daemon.start();
  expect_lost(heard_once(id));
  expect_runs(id, 1);
}

// The wishes are their files' existence: nothing in them is needed.
TEST_F(RecoveryTest, I8_a_torn_stop_wish_is_a_stop_wish) {
  start_with_supervisors_that_stop_at("shim.stop_term");
  const std::string id = held_job();
  daemon.cli({"stop", id, "--reason", "enough"});
  const pid_t shim = stopped_supervisor();
  daemon.kill_9();
  for (const char* name : {"stop.req", "stop.json"}) {
    std::ofstream(file(id, name), std::ios::trunc) << "{\"jo";
  }
  daemon.start();
  ::kill(shim, SIGCONT);
  const Output ended = daemon.cli({"--json", "stop", id, "--wait", "--timeout", "60s"});
  EXPECT_EQ(ended.exit_code, 0) << ended.describe();
  const json::value job = daemon.show(id);
  EXPECT_EQ(text_at(job, "status"), "stopped") << json::serialize(job);
  EXPECT_EQ(text_at(job, "reason"), "enough") << "it is the row's";
}

TEST_F(RecoveryTest, I2_a_torn_wish_to_close_the_input_closes_it) {
  daemon.start();
  const std::string id = daemon.accept(bell.command("up") + "; cat; exit 3", {"--stdin"});
  ASSERT_TRUE(bell.word());
  daemon.kill_9();
  std::ofstream(file(id, "in.close")) << "{\"jo";
  daemon.start();
  expect_exited(heard_once(id));
}

}  // namespace
}  // namespace waybill::e2e
