#include "core/exit.h"

#include "core/stages.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace waybill::core {
namespace {

using Found = std::vector<StageFinding>;
constexpr auto ok = StageFinding::ok;
constexpr auto failed = StageFinding::failed;
constexpr auto closed_early = StageFinding::closed_early;
constexpr auto collateral = StageFinding::collateral;
constexpr auto no_match = StageFinding::no_match;

// One nasty command: how the shell ended, what the hook wrote ("" nothing), and what follows.
struct Case {
  std::string command;
  Exit exit;
  std::string record;
  Verdict verdict;
  Found findings;  // empty: not claimed, then `reason`
  StagesReason reason = StagesReason::single;
};

Stages claim(const Case& c, bool shell_captures = true) {
  const bool captured = shell_captures && c.command.find('|') != std::string::npos;
  return claim_stages(c.command, c.exit,
                      {parse_stage_record(c.record), parse_stage_history(c.record), captured,
                       shell_captures ? Shell::bash : Shell::other});
}

void expect_case(const Case& c) {
  SCOPED_TRACE(c.command);
  const Stages stages = claim(c);
  EXPECT_EQ(to_word(judge(c.exit, stages)), to_word(c.verdict));
  ASSERT_EQ(stages.claimed.size(), c.findings.size());
  EXPECT_EQ(stages.reason.has_value(), c.findings.empty());
  if (stages.reason) {
    EXPECT_EQ(to_word(*stages.reason), to_word(c.reason));
  }
  for (std::size_t i = 0; i < c.findings.size(); ++i)
    EXPECT_EQ(to_word(stages.claimed[i].finding), to_word(c.findings[i])) << "stage " << i + 1;
}

// The rows of the thirty nasty commands that command, exit and record decide alone.
const std::vector<Case> kThirty{
    {"sh -c 'exit 101' | tail -n 20",
     Exit::exited(0),
     "0 101 0\n",
     Verdict::stage_failed,
     {failed, ok}},
    {"yes | head -n 1", Exit::exited(0), "0 141 0\n", Verdict::ok, {closed_early, ok}},
    {"false | true; exit 0", Exit::exited(0), "0 1 0\n", Verdict::stage_failed, {failed, ok}},
    {"exit 7 | cat", Exit::exited(0), "0 7 0\n", Verdict::stage_failed, {failed, ok}},
    {"false | true; exec true", Exit::exited(0), "", Verdict::ok, {}, StagesReason::exec},
    {"exec sh -c 'exit 5' | cat", Exit::exited(0), "0 5 0\n", Verdict::stage_failed, {failed, ok}},
    {"trap 'echo bye' EXIT; false | true",
     Exit::exited(0),
     "",
     Verdict::ok,
     {},
     StagesReason::user_exit_trap},
    {"false | true\necho )\n",
     Exit::exited(2),
     "2 2\n",
     Verdict::failed,
     {},
     StagesReason::not_last},
    {"cat <<E | cat\nbody", Exit::exited(0), "0 0 0\n", Verdict::ok, {ok, ok}},
    {"set -e; true | false; echo no", Exit::exited(1), "1 0 1\n", Verdict::failed, {ok, failed}},
    {"set -eo pipefail; false | true; echo no",
     Exit::exited(1),
     "1 1 0\n",
     Verdict::failed,
     {failed, ok}},
    {"false | true # c", Exit::exited(0), "0 1 0\n", Verdict::stage_failed, {failed, ok}},
    {"false \\\n | true", Exit::exited(0), "0 1 0\n", Verdict::stage_failed, {failed, ok}},
    {"false | true && echo done",
     Exit::exited(0),
     "0 0\n",
     Verdict::ok,
     {},
     StagesReason::not_last},
    {"false | true; echo rc=$?", Exit::exited(0), "0 0\n", Verdict::ok, {}, StagesReason::not_last},
    {"false | true & wait", Exit::exited(0), "0 0\n", Verdict::ok, {}, StagesReason::not_last},
    {"grep zzz /etc/hosts | wc -l", Exit::exited(0), "0 1 0\n", Verdict::ok, {no_match, ok}},
    {"IFS=0123456789; false | true",
     Exit::exited(0),
     "0 1 0\n",
     Verdict::stage_failed,
     {failed, ok}},
    {"set -x; false | true", Exit::exited(0), "0 1 0\n", Verdict::stage_failed, {failed, ok}},
    {"sh -c 'kill -9 $$' | cat", Exit::exited(0), "0 137 0\n", Verdict::stage_failed, {failed, ok}},
    {"kill -9 $$", Exit::signaled(9, false), "", Verdict::signaled, {}, StagesReason::single},
    {"bash -c 'false | true' | cat", Exit::exited(0), "0 0 0\n", Verdict::ok, {ok, ok}},
    {"sleep 300 &", Exit::exited(0), "", Verdict::ok, {}, StagesReason::single},
    {"setsid sleep 300 >/dev/null 2>&1 &",
     Exit::exited(0),
     "",
     Verdict::ok,
     {},
     StagesReason::single},
    {"trap '' TERM; sleep 300",
     Exit::signaled(9, false),
     "",
     Verdict::signaled,
     {},
     StagesReason::single},
    {"echo a; echo b >/dev/stdout; echo c",
     Exit::exited(0),
     "",
     Verdict::ok,
     {},
     StagesReason::single},
    {"sleep 1; exit 9",
     Exit::unknown("the supervisor was lost"),
     "",
     Verdict::unknown,
     {},
     StagesReason::single},
};

TEST(Exit, thirty_nasty_commands) {
  for (const Case& c : kThirty) expect_case(c);
}

const std::vector<Case> kMore{
    {"exec 1>&-; false | true", Exit::exited(0), "0 1 0\n", Verdict::stage_failed, {failed, ok}},
    {"set -u; true | true; echo $nope",
     Exit::exited(127),
     "127 1\n",
     Verdict::failed,
     {},
     StagesReason::not_last},
    {"false | true; kill -9 $$",
     Exit::signaled(9, false),
     "",
     Verdict::signaled,
     {},
     StagesReason::killed},
    {"false | cat", Exit::unknown("lost"), "0 1 0\n", Verdict::unknown, {}, StagesReason::lost},
    {"false | true", Exit::exited(3), "0 1 0\n", Verdict::failed, {}, StagesReason::mismatch},
    {"sleep 9 | cat", Exit::signaled(15, false), "0 0 0\n", Verdict::signaled, {ok, ok}},
    {"echo 'a | b'", Exit::exited(0), "0 0\n", Verdict::ok, {}, StagesReason::single},
    {"(false | true)", Exit::exited(0), "0 0\n", Verdict::ok, {}, StagesReason::not_last},
    {"false | true; return 3",
     Exit::exited(2),
     "2 2\n",
     Verdict::failed,
     {},
     StagesReason::not_last},
    // The SIGPIPE rule: chains of excused, blamed and collateral stages, from the end backwards.
    {"yes | cat | head -n 1",
     Exit::exited(0),
     "0 141 141 0\n",
     Verdict::ok,
     {closed_early, closed_early, ok}},
    {"yes | python3 filter.py | tail",
     Exit::exited(0),
     "0 141 1 0\n",
     Verdict::stage_failed,
     {collateral, failed, ok}},
    {"yes | cat | python3 filter.py | tail",
     Exit::exited(0),
     "0 141 141 1 0\n",
     Verdict::stage_failed,
     {collateral, collateral, failed, ok}},
    {"yes | grep -m1 zzz | wc -l",
     Exit::exited(0),
     "0 141 1 0\n",
     Verdict::ok,
     {closed_early, no_match, ok}},
    {"true | yes", Exit::exited(141), "141 0 141\n", Verdict::failed, {ok, failed}},
    {"yes | yes", Exit::exited(141), "141 141 141\n", Verdict::failed, {collateral, failed}},
    {"grep x nofile | wc -l", Exit::exited(0), "0 2 0\n", Verdict::stage_failed, {failed, ok}},
    {"git diff --quiet | cat", Exit::exited(0), "0 1 0\n", Verdict::ok, {no_match, ok}},
    {"git diff | cat", Exit::exited(0), "0 1 0\n", Verdict::stage_failed, {failed, ok}},
    // Two statuses, and the tokenizer cannot say whose: 1 may be the answer of grep.
    {"for i in 1; do grep zzz f | wc -l; done",
     Exit::exited(0),
     "0 1 0\n",
     Verdict::ok,
     {no_match, ok}},
    // Asked for by `!`.
    {"! true | grep -q bad", Exit::exited(0), "0 0 1\n", Verdict::ok, {ok, no_match}},
    {"! true | false", Exit::exited(0), "0 0 1\n", Verdict::ok, {ok, no_match}},
    {"! false | true", Exit::exited(1), "1 1 0\n", Verdict::failed, {failed, ok}},
    {"true | ./report; exit 0", Exit::exited(0), "0 0 3\n", Verdict::stage_failed, {ok, failed}},
};

TEST(Exit, stages_claims_and_findings) {
  for (const Case& c : kMore) expect_case(c);
}

TEST(Exit, shell_that_is_not_captured_says_so) {
  const Case piped{"false | cat", Exit::exited(0), "", Verdict::ok, {}};
  EXPECT_EQ(claim(piped, false).reason, StagesReason::shell_unsupported);
  const Case plain{"false", Exit::exited(1), "", Verdict::failed, {}};
  EXPECT_EQ(claim(plain, false).reason, StagesReason::single);
}

TEST(Exit, texts_of_stages_only_when_sure) {
  const Stages sure = claim({"cargo test | tail", Exit::exited(0), "0 101 0\n", {}, {}});
  EXPECT_EQ(sure.claimed.at(0).command, "cargo test");
  const Stages count_differs = claim({"a | b | c", Exit::exited(0), "0 1 0\n", {}, {}});
  EXPECT_EQ(count_differs.claimed.at(0).command, "");
  const Stages chain = claim({"a | b && c | d", Exit::exited(0), "0 1 0\n", {}, {}});
  EXPECT_EQ(chain.claimed.at(0).command, "c");
  const Stages broken_chain = claim({"a | b && c | d", Exit::exited(4), "4 1 4\n", {}, {}});
  EXPECT_EQ(broken_chain.claimed.at(0).command, "");
  const Stages killed = claim({"a | b; c | d", Exit::signaled(15, false), "0 1 0\n", {}, {}});
  EXPECT_EQ(killed.claimed.at(0).command, "");
  const std::string pattern(5000, 'x');
  const Stages cut = claim({"grep '" + pattern + "' f | wc", Exit::exited(0), "0 1 0\n", {}, {}});
  EXPECT_EQ(cut.claimed.at(0).finding, no_match);
  EXPECT_LE(cut.claimed.at(0).command.size(), 203U);
}

TEST(Exit, stage_of_128_plus_n_stays_a_code) {
  const Stages stages = claim({"sh -c 'kill -9 $$' | cat", Exit::exited(0), "0 137 0\n", {}, {}});
  EXPECT_EQ(stages.claimed.at(0).exit.kind, ExitKind::exited);
  EXPECT_EQ(stages.claimed.at(0).exit.code, 137);
  EXPECT_FALSE(stages.claimed.at(0).exit.signal);
}

TEST(Exit, record_parses_only_when_whole) {
  const auto record = parse_stage_record("0 9 9\n0 101 0\n");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->shell_code, 0);
  EXPECT_EQ(record->statuses, (std::vector<int>{101, 0}));
  for (const char* text :
       {"", "\n", "0 1 0", "0 1 0\n\n", "0  1\n", "0 1 \n", "x 1\n", "0 -1\n", "0 256\n", "0 1x\n",
        "0 101 10", " 0 1\n", "+0 1\n", "0 99999999999\n", "0 1 0\n0 1"})
    EXPECT_FALSE(parse_stage_record(text)) << text;
  std::string many = "0";
  for (int i = 0; i < 5000; ++i) many += " 1";
  EXPECT_FALSE(parse_stage_record(many + "\n"));
}

// I9: unknown is a value. No road leads from it to 0, to -1 or to success.
TEST(Exit, I9_unknown_is_never_zero) {
  const Exit unknown = Exit::unknown("the supervisor was lost");
  EXPECT_FALSE(unknown.code);
  EXPECT_FALSE(unknown.signal);
  EXPECT_FALSE(unknown.success());
  EXPECT_FALSE(Exit{}.success());
  for (const char* record : {"", "0 0 0\n", "0 0\n"}) {
    const Stages stages = claim({"true | true", unknown, record, {}, {}});
    EXPECT_TRUE(stages.claimed.empty());
    EXPECT_EQ(judge(unknown, stages), Verdict::unknown);
    EXPECT_EQ(exit_code_of(unknown, judge(unknown, stages)), 125);
    EXPECT_EQ(describe(unknown, stages, Verdict::unknown), "exit unknown: the supervisor was lost");
  }
  Exit codeless;
  codeless.kind = ExitKind::exited;
  EXPECT_FALSE(codeless.success());
  EXPECT_EQ(judge(codeless, {}), Verdict::unknown);
  EXPECT_EQ(exit_code_of(codeless, Verdict::unknown), 125);
  EXPECT_EQ(describe(codeless, {}, Verdict::unknown).find("exit 0"), std::string::npos);
}

std::string sentence(const Case& c) {
  const Stages stages = claim(c);
  return describe(c.exit, stages, judge(c.exit, stages));
}

TEST(Exit, sentences) {
  EXPECT_EQ(sentence({"true", Exit::exited(0), "", {}, {}}), "exit 0");
  EXPECT_EQ(sentence({"cargo test", Exit::exited(101), "", {}, {}}), "exit 101");
  EXPECT_EQ(sentence({"cargo test | tail -n 20", Exit::exited(0), "0 101 0\n", {}, {}}),
            "exit 0, but stage 1 of 2 (cargo test) exited 101");
  EXPECT_EQ(sentence({"a | b; c & for x in y; do z; done", Exit::exited(0), "0 3 0\n", {}, {}}),
            "exit 0, but stage 1 of 2 exited 3");
  EXPECT_EQ(sentence({"a | b | c", Exit::exited(0), "0 1 2 0\n", {}, {}}),
            "exit 0, but stage 1 of 3 (a) exited 1 and stage 2 of 3 (b) exited 2");
  EXPECT_EQ(sentence({"curl x | head", Exit::exited(0), "0 23 0\n", {}, {}}),
            "exit 0, but stage 1 of 2 (curl x) exited 23 (its reader may have ended first)");
  EXPECT_EQ(sentence({"yes | head -n 1", Exit::exited(0), "0 141 0\n", {}, {}}), "exit 0");
  EXPECT_EQ(sentence({"grep x f | wc -l", Exit::exited(0), "0 1 0\n", {}, {}}),
            "exit 0; stage 1 of 2 (grep x f) found no match (exit 1)");
  // Only a program that answers has "found no match"; whose stage it is must be known for that.
  EXPECT_EQ(sentence({"! true | sh -c 'exit 101'", Exit::exited(0), "0 0 101\n", {}, {}}),
            "exit 0; stage 2 of 2 (sh -c 'exit 101') exited 101 (as asked for)");
  EXPECT_EQ(sentence({"for p in a b; do grep z f | wc; done", Exit::exited(0), "0 1 0\n", {}, {}}),
            "exit 0; stage 1 of 2 exited 1 (not judged: it may be an answer)");
  EXPECT_EQ(sentence({"x", Exit::signaled(9, false), "", {}, {}}), "killed by signal 9 (SIGKILL)");
  EXPECT_EQ(sentence({"x", Exit::signaled(11, true), "", {}, {}}),
            "killed by signal 11 (SIGSEGV), core dumped");
  EXPECT_EQ(sentence({"x", Exit::signaled(40, false), "", {}, {}}), "killed by signal 40");
  EXPECT_EQ(sentence({"x", Exit::exited(137), "", {}, {}}),
            "exit 137 (128+9: a child was probably killed by SIGKILL)");
  EXPECT_EQ(sentence({"x", Exit::exited(255), "", {}, {}}), "exit 255");
  EXPECT_EQ(sentence({"x", Exit::not_started("chdir", 2, "No such file or directory"), "", {}, {}}),
            "could not start: chdir: No such file or directory");
  EXPECT_EQ(sentence({"x", Exit::not_started("exec", 13, ""), "", {}, {}}),
            "could not start: exec: Permission denied");
}

TEST(Exit, I14_sentence_is_one_bounded_line) {
  const std::string text = "a\n\n" + std::string(100'000, 'b');
  std::string command = "'" + text + "'";
  std::string record = "0 1";
  for (int i = 0; i < 400; ++i) command += " | '" + text.substr(0, 500) + "'", record += " 1";
  const Case c{command + " | cat", Exit::exited(0), record + " 0\n", {}, {}};
  const std::string said = sentence(c);
  EXPECT_LT(said.size(), 1500U);
  EXPECT_EQ(said.find('\n'), std::string::npos);
  EXPECT_NE(said.find("and 396 more"), std::string::npos) << said;
  EXPECT_LT(sentence({"x", Exit::unknown(text), "", {}, {}}).size(), 1500U);
}

TEST(Exit, codes_for_the_command_line) {
  EXPECT_EQ(exit_code_of(Exit::exited(0), Verdict::ok), 0);
  EXPECT_EQ(exit_code_of(Exit::exited(0), Verdict::stage_failed), 119);
  EXPECT_EQ(exit_code_of(Exit::exited(3), Verdict::failed), 3);
  EXPECT_EQ(exit_code_of(Exit::signaled(15, false), Verdict::signaled), 143);
  EXPECT_EQ(exit_code_of(Exit::not_started("exec", 2, ""), Verdict::not_started), 126);
}

TEST(Exit, stage_lines) {
  const Stages stages = claim({"yes | cat | head -n 1", Exit::exited(0), "0 141 0 0\n", {}, {}});
  EXPECT_EQ(describe_stage(stages, 0),
            "stage 1 of 3 (yes): exit 141 (its reader ended first; not a failure)");
  EXPECT_EQ(describe_stage(stages, 1), "stage 2 of 3 (cat): exit 0 (may have been cut short)");
  EXPECT_EQ(describe_stage(stages, 2), "stage 3 of 3 (head -n 1): exit 0");
  EXPECT_EQ(describe_stage(stages, 3), "");
}

}  // namespace
}  // namespace waybill::core
