// A look at a directory that changes under it, and one that cannot be taken.

#include "supervise/job_look.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "shim/cgroup.h"
#include "shim/files.h"
#include "shim/record.h"
#include "supervise/cgroup_root.h"
#include "supervise/process_scan.h"
#include "supervise/sweep.h"

namespace waybill::supervise {
namespace {

class JobLookTest : public ::testing::Test {
 protected:
  JobLookTest() {
    char path[] = "/tmp/waybill-look-XXXXXX";
    data_dir_ = mkdtemp(path);
    std::filesystem::create_directories(job_path());
    order_ = {&data_dir_, JobId("j1"), &machine_, true};
  }
  ~JobLookTest() override {
    std::error_code error;
    std::filesystem::remove_all(data_dir_, error);
  }
  std::string job_path() const { return data_dir_ + "/jobs/j1"; }

  std::string data_dir_;
  MachineGeneration machine_ = read_machine_generation();
  LookOrder order_;
};

TEST_F(JobLookTest, I3_a_record_that_is_renamed_into_place_during_the_look_is_never_torn) {
  shim::JsonLine line;
  line.text("job", "j1");
  line.boolean("stuck", false);
  line.integer("since_ms", 1);
  line.open("survivors", '[');
  line.close(']');
  line.number("survivors_total", 0);
  const std::string text(line.finish());
  const std::string tmp = job_path() + "/" + shim::kStopTmp;
  const std::string name = job_path() + "/" + shim::kStop;
  std::ofstream(tmp, std::ios::binary) << text;
  std::atomic<bool> done{false};
  std::thread supervisor([&] {
    while (!done) {
      rename(tmp.c_str(), name.c_str());
      rename(name.c_str(), tmp.c_str());
    }
  });
  int seen[2] = {};  // absent, good: both states often, so that the moment between was met
  for (int i = 0; i < 200'000 && (i < 5000 || seen[0] < 500 || seen[1] < 500); ++i) {
    const JobLook look = look_at(order_);
    EXPECT_EQ(look.error, 0);
    EXPECT_NE(look.survivors.state, RecordState::torn);
    if (HasFailure()) break;
    ++seen[look.survivors.good() ? 1 : 0];
  }
  done = true;
  supervisor.join();
}

TEST_F(JobLookTest, I7_a_record_that_its_job_scribbled_on_ends_nothing_while_the_supervisor_lives) {
  for (const char* name : {shim::kExit, shim::kFinal}) {
    std::ofstream(job_path() + "/" + name) << "{}";
  }
  const JobLook alive = look_at(order_);
  EXPECT_EQ(alive.supervision, core::Supervision::launching);
  EXPECT_FALSE(facts_of(alive).exit);
  order_.shim_known_alive = false;
  const JobLook alone = look_at(order_);
  EXPECT_EQ(alone.supervision, core::Supervision::finished);
  EXPECT_TRUE(facts_of(alone).exit_torn);
}

TEST_F(JobLookTest, I3_an_empty_record_is_torn_and_a_missing_one_absent) {
  order_.shim_known_alive = false;
  std::ofstream(job_path() + "/" + shim::kExit).flush();
  const JobLook look = look_at(order_);
  EXPECT_EQ(look.error, 0);
  EXPECT_EQ(look.exit.state, RecordState::torn);
  EXPECT_EQ(look.final_record.state, RecordState::absent);
}

TEST_F(JobLookTest, I3_no_descriptor_left_is_neither_absent_nor_torn) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const int blind = look_at(order_).error;
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(blind, EMFILE);
  EXPECT_EQ(look_at(order_).error, 0);
}

// Scan and sweep are asked with no descriptor left.
TEST_F(JobLookTest, I7_who_cannot_be_looked_for_is_not_gone) {
  ScanTarget target;
  target.job = JobId("j1");
  target.main_start = UINT64_MAX;  // nobody is that young
  Sweep sweep(target);
  const auto members = std::make_unique<shim::Members>();
  const ProcessIdentity self{getpid(), 0};
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool seen = scan_job_processes(target, *members);
  const Same same = compare_process(self);
  const bool somebody = sweep.scan();
  MonoTime now{};
  for (int i = 0; i < 5; ++i) sweep.step(now += Millis(1), Millis(0));
  const bool done = sweep.done();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_FALSE(seen);
  EXPECT_EQ(same, Same::unknown);
  EXPECT_TRUE(somebody);
  EXPECT_FALSE(done);
  EXPECT_TRUE(scan_job_processes(target, *members));
  EXPECT_EQ(compare_process(self), Same::no);
  for (int i = 0; i < 5; ++i) sweep.step(now += Millis(1), Millis(0));
  EXPECT_TRUE(sweep.done());
}

// The record as a supervisor writes it, with that group.
TEST_F(JobLookTest, I7_a_group_that_is_not_the_jobs_own_is_none) {
  const std::string own = cgroup_of_job(cgroup_folder("/sys/fs/cgroup/x", data_dir_), JobId("j1"));
  const std::uint64_t here = shim::cgroup_namespace();
  const auto group_seen = [&](const std::string& path, std::uint64_t cgroupns) {
    shim::JsonLine line;
    line.text("job", "j1");
    for (const char* key : {"shim_pid", "shim_start", "main_pid", "main_start", "session"}) {
      line.integer(key, 0);
    }
    line.text("boot_id", machine_.boot_id);
    line.number("pidns", machine_.pidns);
    line.number("init_start", machine_.init_start);
    line.text("cgroup", path);
    line.text("cgroup_why", "");
    if (cgroupns != 0) line.number("cgroupns", cgroupns);
    line.boolean("captured", false);
    line.integer("started_at_ms", 1);
    line.integer("started_mono_ns", 1);
    std::ofstream(job_path() + "/" + shim::kStart, std::ios::binary) << line.finish();
    const JobLook look = look_at(order_);
    EXPECT_TRUE(look.start.good());
    return look.start.value.cgroup;
  };
  EXPECT_EQ(group_seen(own, here), own);
  EXPECT_EQ(group_seen(own, here + 1), "") << "the same path, another place";
  if (here != 0) {
    EXPECT_EQ(group_seen(own, 0), "") << "nobody knows what place";
  }
  EXPECT_EQ(group_seen("/sys/fs/cgroup/system.slice", here), "");
  EXPECT_EQ(group_seen(own + "/below", here), "");
  EXPECT_EQ(group_seen(own.substr(0, own.size() - 1) + "2", here), "") << "another job's";
  EXPECT_EQ(
      group_seen(cgroup_of_job(cgroup_folder("/sys/fs/cgroup/x", "/other"), JobId("j1")), here),
      "");
}

TEST_F(JobLookTest, I3_a_directory_that_is_not_there_is_no_error) {
  std::filesystem::remove_all(job_path());
  const JobLook look = look_at(order_);
  EXPECT_EQ(look.error, 0);
  EXPECT_FALSE(look.dir);
}

}  // namespace
}  // namespace waybill::supervise
