// SPEC section 12: what a commit that failed leaves open, and what it does not.

#include "faulty_disk.h"
#include "world.h"

namespace waybill::test {
namespace {

using engine::InboxReply;
using engine::JobReply;
using engine::RunReply;

class DiskTest : public ::testing::Test {
 protected:
  DiskTest() { set_fault(Fault::none); }  // before the store is opened
  ~DiskTest() override { set_fault(Fault::none); }
};

class PassingTest : public DiskTest, public ::testing::WithParamInterface<Fault> {};

// Nothing was written, and that is known: refused, and all is well once the cause has passed.
TEST_P(PassingTest, I6_a_disk_that_takes_no_write_voids_the_change_and_poisons_nothing) {
  World world;
  const auto running = world.ask<RunReply>(command(host(), "true"));
  const std::size_t orders = world.channel.orders.size();
  {
    const WithFault fault(GetParam());
    const Error refused = world.refuse(command(host(), "false"));
    EXPECT_EQ(refused.code,
              GetParam() == Fault::write_read_only ? ErrorCode::unavailable : ErrorCode::store_full)
        << refused.message;
    // An end that cannot be committed now is neither lost nor half there.
    world.ended(running.job.id, 3);
    EXPECT_EQ(world.ask<JobReply>(engine::ShowRequest{person(), running.job.id}).job.status,
              core::JobStatus::running);
    EXPECT_TRUE(world.engine().poisoned().empty()) << world.engine().poisoned();
    EXPECT_TRUE(world.engine().next_due());  // it is tried again
    world.pass(Millis(60'000));
  }
  EXPECT_EQ(world.channel.orders.size(), orders);
  world.pass(Millis(60'000));
  const auto job = world.ask<JobReply>(engine::ShowRequest{person(), running.job.id}).job;
  EXPECT_EQ(job.status, core::JobStatus::failed);
  EXPECT_EQ(
      std::ranges::count_if(job.receipts, [](const auto& r) { return core::is_terminal(r.to); }),
      1);
  const auto taken = world.ask<InboxReply>(inbox(host()));
  ASSERT_TRUE(taken.hand_over);
  EXPECT_EQ(taken.hand_over->events.size(), 1U);
  EXPECT_EQ(world.ask<RunReply>(command(host(), "true")).job.status, core::JobStatus::running);
}

INSTANTIATE_TEST_SUITE_P(Disk, PassingTest,
                         ::testing::Values(Fault::write_full, Fault::write_quota,
                                           Fault::write_read_only),
                         [](const auto& row) {
                           if (row.param == Fault::write_full) return "full";
                           return row.param == Fault::write_quota ? "quota" : "read_only";
                         });

class UncertainTest : public DiskTest, public ::testing::WithParamInterface<Fault> {};

// Whether the change is on the disk cannot be told: nothing is changed any more until a restart.
TEST_P(UncertainTest, I12_a_commit_that_may_or_may_not_be_there_poisons_until_a_restart) {
  World world;
  const auto running = world.ask<RunReply>(command(host(), "true"));
  {
    const WithFault fault(GetParam());
    EXPECT_EQ(world.refuse(command(host(), "false")).code, ErrorCode::unavailable);
  }
  EXPECT_FALSE(world.engine().poisoned().empty());
  EXPECT_EQ(world.refuse(command(host(), "true")).code, ErrorCode::unavailable);
  EXPECT_TRUE(world.post(engine::ShowRequest{person(), running.job.id})->result);  // reads go on
  world.crash();
  ASSERT_TRUE(world.start());
  EXPECT_TRUE(world.engine().poisoned().empty());
  world.ended(running.job.id, 3);
  EXPECT_TRUE(world.ask<InboxReply>(inbox(host())).hand_over);
}

INSTANTIATE_TEST_SUITE_P(Disk, UncertainTest,
                         ::testing::Values(Fault::sync_broken, Fault::write_broken),
                         [](const auto& row) {
                           return row.param == Fault::sync_broken ? "sync" : "write";
                         });

}  // namespace
}  // namespace waybill::test
