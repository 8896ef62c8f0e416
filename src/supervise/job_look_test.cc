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
#include <thread>

#include "shim/files.h"
#include "shim/record.h"

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

TEST_F(JobLookTest, I3_an_empty_record_is_torn_and_a_missing_one_absent) {
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

TEST_F(JobLookTest, I3_a_directory_that_is_not_there_is_no_error) {
  std::filesystem::remove_all(job_path());
  const JobLook look = look_at(order_);
  EXPECT_EQ(look.error, 0);
  EXPECT_FALSE(look.dir);
}

}  // namespace
}  // namespace waybill::supervise
