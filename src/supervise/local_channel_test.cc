// Whole jobs through the real supervisor: launch, exit, output, leftovers.

#include "supervise/local_channel.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/sha256.h"
#include "supervise/channel_fixture.h"
#include "supervise/output_reader.h"

namespace waybill::supervise {
namespace {

using core::ExitKind;
using core::Proof;
using core::Supervision;
using std::chrono::steady_clock;

std::string sha256_of(const std::string& text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  char hex[65];
  hash.finish_hex(hex);
  return hex;
}

using LocalChannelTest = ChannelTest;

TEST_F(LocalChannelTest, I9_exit_output_and_proof_of_a_plain_command) {
  const JobId job = run("echo hello; echo there >&2; exit 3");
  const core::JobFacts facts = wait_finished(job);
  ASSERT_TRUE(facts.exit);
  EXPECT_EQ(facts.exit->kind, ExitKind::exited);
  EXPECT_EQ(facts.exit->code, 3);
  EXPECT_EQ(facts.ended_by, core::EndedBy::itself);
  EXPECT_EQ(facts.proof, Proof::subreaper);
  EXPECT_EQ(facts.tail, "hello\nthere\n");
  ASSERT_TRUE(facts.output);
  EXPECT_EQ(facts.output->bytes, 12U);
  EXPECT_EQ(facts.output->digest, sha256_of("hello\nthere\n"));
  EXPECT_EQ(facts.output->incomplete, "");
  ASSERT_TRUE(facts.usage);
  EXPECT_GT(facts.usage->max_rss_bytes, 0U);
  EXPECT_TRUE(facts.started_at && facts.finished_at && facts.duration);
  EXPECT_TRUE(facts.leftovers->found.empty());
  EXPECT_FALSE(facts.captured);
  EXPECT_FALSE(has_file(job, "launch.env")) << "the private part goes once the command is started";
}

TEST_F(LocalChannelTest, order_of_reports_is_the_order_of_events) {
  const JobId job = run("sleep 0.2; exit 1");
  wait_finished(job);
  int last = -1;
  for (const core::JobFacts& facts : reports(job)) {
    const int now = static_cast<int>(facts.supervision);
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_EQ(reports(job).front().supervision, Supervision::launching);
}

TEST_F(LocalChannelTest, S20_a_signal_is_a_signal_and_not_137) {
  const core::JobFacts facts = wait_finished(run("kill -9 $$"));
  EXPECT_EQ(facts.exit->kind, ExitKind::signaled);
  EXPECT_EQ(facts.exit->signal, 9);
  EXPECT_FALSE(facts.exit->code);
  EXPECT_EQ(facts.ended_by, core::EndedBy::itself);
}

TEST_F(LocalChannelTest, I9_signals_are_at_their_defaults_and_stdin_is_empty) {
  const JobId job =
      run("grep -E 'Sig(Blk|Ign)' /proc/self/status; cat; yes | head -n 1; [ -t 0 ] || echo notty");
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.tail, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\ny\nnotty\n");
  ASSERT_TRUE(facts.captured);
}

TEST_F(LocalChannelTest, environment_descriptors_session_and_umask_are_the_jobs_own) {
  LaunchOrder launch = order(
      "env | cat; ls /proc/self/fd | tr '\\n' ' '; umask; "
      "ps -o sid= -p $$ | tr -d ' ' ; echo $$");
  launch.umask = 027;
  launch.env = {"PATH=/usr/bin:/bin", "B=2 3", "A=\xff\n1"};
  setenv("WAYBILL_TEST_SECRET", "leak", 1);
  const JobId job = run(std::move(launch));
  const core::JobFacts facts = wait_finished(job);
  EXPECT_NE(facts.tail.find("A=\xff\n1"), std::string::npos);
  EXPECT_NE(facts.tail.find("B=2 3\n"), std::string::npos);
  EXPECT_EQ(facts.tail.find("leak"), std::string::npos);
  EXPECT_EQ(facts.tail.find("BASH_ENV"), std::string::npos) << "the hook leaves nothing behind";
  EXPECT_NE(facts.tail.find("0 1 2 3 0027\n"), std::string::npos) << facts.tail;
  const std::size_t end = facts.tail.rfind('\n', facts.tail.size() - 2);
  const std::string pid = facts.tail.substr(end + 1);
  EXPECT_NE(facts.tail.find("\n" + pid + pid), std::string::npos) << "leads its own session";
}

TEST_F(LocalChannelTest, O15_what_never_ran_is_not_started_with_step_and_errno) {
  LaunchOrder no_folder = order("echo x");
  no_folder.cwd = "/no/such/folder";
  LaunchOrder no_shell = order("echo x");
  no_shell.shell = "/no/such/shell";
  const JobId a = run(std::move(no_folder));
  const JobId b = run(std::move(no_shell));
  const JobId c = run(argv_order({"no-such-program"}));
  const JobId d = run(argv_order({"/etc/passwd"}));
  struct Case {
    JobId job;
    const char* step;
    int error;
  };
  for (const Case& expected : {Case{a, "chdir", ENOENT}, Case{b, "exec", ENOENT},
                               Case{c, "exec", ENOENT}, Case{d, "exec", EACCES}}) {
    const core::JobFacts facts = wait_finished(expected.job);
    EXPECT_EQ(facts.exit->kind, ExitKind::not_started);
    EXPECT_EQ(facts.exit->step, expected.step);
    EXPECT_EQ(facts.exit->error, expected.error);
    EXPECT_FALSE(facts.exit->code);
  }
  EXPECT_EQ(wait_finished(run("no-such-command")).exit->code, 127);
}

TEST_F(LocalChannelTest, argv_is_run_unshelled_and_found_in_the_jobs_own_path) {
  LaunchOrder launch = argv_order({"printf", "%s|", "a b", "", "$HOME"});
  launch.env = {"PATH=/nowhere:/usr/bin"};
  EXPECT_EQ(wait_finished(run(std::move(launch))).tail, "a b||$HOME|");
  EXPECT_EQ(wait_finished(run("-x 2>/dev/null; echo $?")).tail, "127\n");
}

TEST_F(LocalChannelTest, S28_log_is_not_truncated_by_reopening_stdout) {
  EXPECT_EQ(wait_finished(run("echo a; echo b >/dev/stdout; echo c")).tail, "a\nb\nc\n");
  EXPECT_EQ(wait_finished(run("echo one; echo two | tee /dev/stderr; echo three")).tail.size(),
            std::string("one\ntwo\ntwo\nthree\n").size());
}

TEST_F(LocalChannelTest, O16_terminal_implies_output_complete) {
  for (int round = 0; round < 10; ++round) {
    const JobId job = run("seq 1 300000; exit 4");
    const core::JobFacts facts =
        wait_for(job, [](const Facts& f) { return f.supervision == Supervision::finished; });
    EXPECT_EQ(facts.exit->code, 4);
    ASSERT_EQ(facts.output->bytes, 1988895U);
    ASSERT_TRUE(facts.tail.ends_with("\n299999\n300000\n"));
    EXPECT_EQ(std::filesystem::file_size(job_path(job) + "/out"), 1988895U);
  }
  const JobId job = run("for i in 1 2 3; do echo o$i; echo e$i >&2; done");
  EXPECT_EQ(wait_finished(job).tail, "o1\ne1\no2\ne2\no3\ne3\n");
}

TEST_F(LocalChannelTest, O16_deadline_keeps_what_was_printed) {
  LaunchOrder launch = order("seq 1 40; sleep " + unique_seconds());
  launch.deadline = Millis(300);
  const core::JobFacts facts = wait_finished(run(std::move(launch)));
  EXPECT_EQ(facts.ended_by, core::EndedBy::deadline);
  EXPECT_EQ(facts.exit->kind, ExitKind::signaled);
  EXPECT_EQ(facts.exit->signal, SIGTERM);
  EXPECT_EQ(facts.proof, Proof::subreaper);
  EXPECT_TRUE(facts.tail.ends_with("39\n40\n"));
}

struct Leftover {
  const char* name;
  const char* command;
  int code;
  const char* output;
};

class LeftoverTest : public ChannelTest, public ::testing::WithParamInterface<Leftover> {};

TEST_P(LeftoverTest, O13_leftover_holds_stdout) {
  const std::string seconds = unique_seconds();
  std::string command = GetParam().command;
  command.replace(command.find("900"), 3, seconds);
  const auto began = steady_clock::now();
  const JobId job = run(command);
  const core::JobFacts first =
      wait_for(job, [](const Facts& f) { return f.supervision == Supervision::finished; });
  // Not a measure of speed: without the bounded drain this would take three years.
  EXPECT_LT(steady_clock::now() - began, std::chrono::seconds(30));
  EXPECT_EQ(first.exit->code, GetParam().code);
  EXPECT_EQ(first.tail, GetParam().output);
  EXPECT_EQ(first.ended_by, core::EndedBy::itself);
  const core::JobFacts last = wait_finished(job);
  ASSERT_FALSE(last.leftovers->found.empty());
  EXPECT_FALSE(last.leftovers->kept);
  EXPECT_TRUE(last.leftovers->survived.empty());
  bool named = false;
  for (const core::ProcessNote& note : last.leftovers->found) {
    named =
        named || (note.comm == "sleep" && note.cmdline == "sleep " + seconds && note.holds_output);
  }
  EXPECT_TRUE(named);
  EXPECT_TRUE(processes_with("sleep " + seconds).empty());
}

INSTANTIATE_TEST_SUITE_P(
    O13, LeftoverTest,
    ::testing::Values(Leftover{"a", "echo done > >(cat; sleep 900); exit 3", 3, "done\n"},
                      Leftover{"b", "echo x; sleep 900 & exit 0", 0, "x\n"},
                      Leftover{"c", "setsid sleep 900 >/dev/null & exit 5", 5, ""}),
    [](const auto& which) { return std::string(which.param.name); });

TEST_F(LocalChannelTest, S23_a_leftover_without_our_output_does_not_hold_the_job) {
  const std::string seconds = unique_seconds();
  LaunchOrder launch = order("setsid sleep " + seconds + " >/dev/null 2>&1 & exit 0");
  launch.drain_grace = Millis(3'600'000);  // would be noticed
  launch.drain_max = Millis(3'600'000);
  const core::JobFacts facts = wait_finished(run(std::move(launch)));
  ASSERT_EQ(facts.leftovers->found.size(), 1U);
  EXPECT_FALSE(facts.leftovers->found[0].holds_output);
}

TEST_F(LocalChannelTest, I7_kept_leftovers_live_on_without_blocking_and_stay_stoppable) {
  const std::string seconds = unique_seconds();
  LaunchOrder launch = order("(yes tick & exec sleep " + seconds + ") & exit 0");
  launch.leftovers = core::LeftoverPolicy::keep;
  launch.drain_max = Millis(600);
  const JobId job = run(std::move(launch));
  const core::JobFacts facts = wait_finished(job);
  EXPECT_TRUE(facts.leftovers->kept);
  EXPECT_EQ(facts.leftovers->survived.size(), 2U);
  const std::uint64_t bytes = facts.output->bytes;
  EXPECT_FALSE(processes_with("sleep " + seconds).empty());
  stop(job);
  const core::JobFacts after = wait_for(job, [](const Facts& f) {
    return f.leftovers && f.leftovers->settled && f.leftovers->survived.empty();
  });
  EXPECT_EQ(after.exit->code, 0);
  EXPECT_EQ(after.ended_by, core::EndedBy::itself);
  EXPECT_EQ(after.output->bytes, bytes);
  EXPECT_TRUE(processes_with("sleep " + seconds).empty());
}

TEST_F(LocalChannelTest, I14_cap_keeps_head_and_tail_and_names_the_gap) {
  LaunchOrder launch = order("seq 1 4000000");  // 30 888 896 bytes
  launch.cap_bytes = 4ULL << 20;
  launch.head_bytes = 1ULL << 20;
  const JobId job = run(std::move(launch));
  const core::JobFacts facts = wait_finished(job);
  const core::OutputFacts& output = *facts.output;
  EXPECT_EQ(output.bytes, 30'888'896U);
  ASSERT_EQ(output.gaps.size(), 1U);
  EXPECT_EQ(output.kept_bytes, output.bytes - (output.gaps[0].to - output.gaps[0].from));
  struct stat info{};
  ASSERT_EQ(stat((job_path(job) + "/out").c_str(), &info), 0);
  EXPECT_LE(info.st_blocks * 512, (8LL << 20) + 4096);
  OutputReader reader(job_path(job), output);
  std::string whole;
  std::string kept;
  std::uint64_t at = 0;
  for (;;) {
    const auto piece = reader.read(at, 100'000);
    ASSERT_TRUE(piece);
    if (piece->next_offset == at) break;
    if (piece->gap) {
      kept += "gap:" + std::to_string(piece->gap->from) + "-" + std::to_string(piece->gap->to);
    }
    kept += piece->bytes;
    whole += piece->bytes;
    at = piece->next_offset;
  }
  EXPECT_EQ(at, output.bytes);
  EXPECT_EQ(whole.find('\0'), std::string::npos) << "a gap was read as zeros";
  EXPECT_TRUE(whole.starts_with("1\n2\n3\n"));
  EXPECT_TRUE(whole.ends_with("\n4000000\n"));
  EXPECT_EQ(output.digest, sha256_of(kept));
  // Cut at line ends: the piece before the gap ends a line, the one after begins one.
  EXPECT_EQ(reader.read(output.gaps[0].from - 1, 1)->bytes, "\n");
}

TEST_F(LocalChannelTest, no_descriptor_is_lost_over_many_jobs) {
  open_channel();
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  wait_finished(run("true"));
  const auto before = count();
  for (int round = 0; round < 20; ++round) {
    std::vector<JobId> jobs;
    for (int i = 0; i < 10; ++i) jobs.push_back(run("exit " + std::to_string(i)));
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      EXPECT_EQ(wait_finished(jobs[i]).exit->code, static_cast<int>(i));
      channel_->forget(jobs[i]);
    }
  }
  EXPECT_TRUE(eventually([&] { return count() <= before; })) << count() << " after " << before;
}

TEST_F(LocalChannelTest, launch_failures_are_reported_and_nothing_runs) {
  open_channel();
  channel_->supervise({JobId("../escape"), order("true"), std::nullopt});
  EXPECT_EQ(wait_for(JobId("../escape"), [](const Facts&) { return true; }).launch_errno, EINVAL);
  EXPECT_FALSE(std::filesystem::exists(data_dir_ + "/escape"));
  LaunchOrder nul = order(std::string("echo \0x", 7));
  EXPECT_EQ(wait_for(run(std::move(nul)), [](const Facts&) { return true; }).launch_errno, EINVAL);
  close_channel();
  LocalChannelOptions options;
  options.data_dir = data_dir_;
  options.shim_path = "/no/such/shim";
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<core::JobFacts> got;
  options.report = [&](core::JobFacts facts) {
    const std::lock_guard<std::mutex> guard(mutex);
    got = std::move(facts);
    changed.notify_all();
  };
  auto channel = LocalChannel::open(std::move(options));
  ASSERT_TRUE(channel);
  LaunchOrder launch = order("true");
  (*channel)->supervise({launch.job, launch, std::nullopt});
  std::unique_lock<std::mutex> guard(mutex);
  ASSERT_TRUE(changed.wait_for(guard, std::chrono::seconds(60), [&] { return got.has_value(); }));
  EXPECT_EQ(got->supervision, Supervision::not_launched);
  EXPECT_EQ(got->launch_errno, ENOENT);
  EXPECT_FALSE(got->launch_error.empty());
}

TEST_F(LocalChannelTest, I10_an_order_twice_runs_once) {
  LaunchOrder launch = order("echo x >> \"$DATA/count\"; sleep 0.2");
  const JobId job = run(launch);
  run(launch);
  wait_running(job);
  run(launch);
  wait_finished(job);
  run(launch);
  look(job);
  wait_for(job, [n = 0](const Facts& f) mutable {
    return f.supervision == Supervision::finished && ++n >= 3;
  });
  std::ifstream in(data_dir_ + "/count");
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_EQ(text, "x\n");
}

// Too few descriptors for a while: no failure is reported, and it runs once.
TEST_F(LocalChannelTest, I10_a_launch_that_is_short_of_descriptors_is_tried_again) {
  open_channel();
  LaunchOrder launch = order("exit 5");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const JobId job = run(std::move(launch));
  const bool warned = eventually([&] { return warning_count() > 0; });
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(warned);
  EXPECT_EQ(wait_finished(job).exit->code, 5);
  for (const core::JobFacts& facts : reports(job)) EXPECT_TRUE(facts.launch_error.empty());
}

}  // namespace
}  // namespace waybill::supervise
