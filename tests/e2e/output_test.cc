// What a reader of a job's output gets, live and after: whole characters, no frames of progress
// bars, bounded pieces.

#include <gtest/gtest.h>

#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

namespace json = boost::json;

struct Split {
  const char* name;
  const char* to;
};

void PrintTo(const Split& row, std::ostream* out) { *out << row.name; }

class SplitTest : public ::testing::TestWithParam<Split> {};

TEST_P(SplitTest, O17_a_character_in_two_pieces_is_whole_live_and_after) {
  Daemon daemon;
  daemon.start();
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  Bell bell(temp.path() + "/bell");
  const std::string to = GetParam().to;
  const std::string id =
      daemon.accept("printf 'one\\n\\342\\202' " + to + "; " + bell.command("up") + "; " +
                    gate.command() + "; printf '\\254 ok\\n' " + to);
  auto follower = daemon.spawn({"logs", id, "--follow"});
  EXPECT_EQ(follower->line(), "one");
  ASSERT_TRUE(bell.word());
  gate.open();
  EXPECT_EQ(follower->line(), "\xE2\x82\xAC ok");
  EXPECT_EQ(follower->line(), std::nullopt);  // its end is the end
  daemon.finished(id);
  EXPECT_EQ(daemon.cli({"logs", id}).out, "one\n\xE2\x82\xAC ok\n");
}

INSTANTIATE_TEST_SUITE_P(Cases, SplitTest,
                         ::testing::Values(Split{"stdout", ""}, Split{"stderr", ">&2"}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(OutputTest, O17_invalid_bytes_are_one_mark_and_raw_output_is_exact) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("s");
  const std::string id = daemon.accept("printf 'a\\377b\\000c\\n'; exit 3");
  const Output taken = daemon.cli({"--json", "inbox", "--timeout", "60s"});
  EXPECT_EQ(text_at(taken.json(), "events.0.tail"),
            "a\xEF\xBF\xBD"
            "b\xE2\x90\x80"
            "c\n");
  EXPECT_EQ(daemon.cli({"logs", id, "--raw"}).out, std::string("a\377b\0c\n", 6));
  const json::value page = daemon.json({"logs", id});
  EXPECT_EQ(text_at(page, "data"),
            "a\xEF\xBF\xBD"
            "b\xE2\x90\x80"
            "c\n");
  EXPECT_EQ(text_at(page, "encoding"), "utf8");
  EXPECT_EQ(text_at(daemon.json({"logs", id, "--raw"}), "encoding"), "base64");
}

TEST(OutputTest, O17_a_job_that_ends_inside_a_character) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("s");
  const std::string id = daemon.accept("printf 'ok\\n\\342\\202'; exit 3");
  const Output taken = daemon.cli({"--json", "inbox", "--timeout", "60s"});
  EXPECT_EQ(text_at(taken.json(), "events.0.tail"), "ok\n\xEF\xBF\xBD");
  EXPECT_EQ(text_at(daemon.json({"logs", id}), "data"), "ok\n\xEF\xBF\xBD");
  EXPECT_EQ(daemon.cli({"logs", id, "--raw"}).out, "ok\n\xE2\x82");
}

TEST(OutputTest, O18_frames_of_a_progress_bar_are_two_lines) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("s");
  const std::string id = daemon.accept(
      "i=0; while [ $i -lt 20000 ]; do printf '\\rpct %d\\033[K' $i; i=$((i+1)); done; echo; "
      "echo END; exit 3");
  const Output taken = daemon.cli({"--json", "inbox", "--timeout", "60s"});
  EXPECT_EQ(text_at(taken.json(), "events.0.tail"), "pct 19999\nEND\n");
  const std::string raw = daemon.cli({"logs", id, "--raw"}).out;
  EXPECT_EQ(raw.size(), static_cast<std::size_t>(number_at(daemon.show(id), "output.bytes")));
  EXPECT_NE(raw.find("\rpct 17\033[K\rpct 18\033[K"), std::string::npos);
  const std::string shown = daemon.cli({"logs", id}).out;
  EXPECT_TRUE(shown.ends_with("pct 19999\nEND\n")) << shown;
  const std::string glued = daemon.accept("printf 'a\\rb\\nc\\n'");
  daemon.finished(glued);
  EXPECT_EQ(daemon.cli({"logs", glued}).out, "b\nc\n");
}

TEST(OutputTest, I14_a_line_of_fifty_megabytes_is_read_in_bounded_pieces) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("s");
  constexpr std::size_t kBytes = kSanitized ? 5'000'000 : 50'000'000;
  const std::string id = daemon.accept("head -c " + std::to_string(kBytes) +
                                       " /dev/zero | tr '\\0' x; echo; echo END; exit 3");
  const Output taken = daemon.cli({"--json", "inbox", "--timeout", "60s"});
  const std::string tail = text_at(taken.json(), "events.0.tail");
  EXPECT_LE(tail.size(), 4096U);
  EXPECT_TRUE(tail.ends_with("x\nEND\n"));
  EXPECT_EQ(daemon.cli({"logs", id, "--tail", "1"}).out, "END\n");
  const json::value page = daemon.json({"logs", id, "--tail", "2", "--bytes", "1000"});
  EXPECT_EQ(text_at(page, "data"), std::string(1000, 'x'));
  std::size_t bytes = 0;
  auto reader = daemon.spawn({"logs", id});
  const Output all = reader->finish();
  bytes = all.out.size();
  EXPECT_EQ(bytes, kBytes + 5);
  if (kSanitized) return;
  const std::string status = read_file("/proc/" + std::to_string(daemon.pid()) + "/status");
  const std::size_t peak = status.find("VmHWM:");
  ASSERT_NE(peak, std::string::npos);
  EXPECT_LT(std::stoull(status.substr(peak + 6)), 100U * 1024) << "kB at most";
}

// What a job opens anew goes to the same place, and cuts nothing off.
TEST(OutputTest, O16_what_is_written_by_name_keeps_its_place) {
  Daemon daemon;
  daemon.start();
  const Output output = daemon.cli({"run", "--wait", "--",
                                    "echo a; echo b > /dev/stdout; echo c; "
                                    "echo d | tee /dev/stderr > /dev/null; echo e"});
  EXPECT_EQ(output.out, "a\nb\nc\nd\ne\n") << output.describe();
}

TEST(OutputTest, several_followers_each_get_all_of_it) {
  Daemon daemon;
  daemon.start();
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  Bell bell(temp.path() + "/bell");
  const std::string id = daemon.accept("seq 1 1000; " + bell.command("up") + "; " + gate.command() +
                                       "; seq 1001 2000");
  std::vector<std::unique_ptr<Process>> followers;
  for (int i = 0; i < 5; ++i) followers.push_back(daemon.spawn({"logs", id, "--follow"}));
  ASSERT_TRUE(bell.word());
  for (const auto& follower : followers) EXPECT_EQ(follower->line(), "1");
  gate.open();
  std::string all;
  for (int i = 1; i <= 2000; ++i) all += std::to_string(i) + "\n";
  for (const auto& follower : followers) {
    const Output output = follower->finish();
    EXPECT_EQ(output.exit_code, 0) << output.err;
    EXPECT_EQ(output.out, all);
  }
  // One that comes when all is over gets the same.
  EXPECT_EQ(daemon.cli({"logs", id, "--follow"}).out, all);
}

}  // namespace
}  // namespace waybill::e2e
