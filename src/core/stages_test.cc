#include "core/stages.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace waybill::core {
namespace {

Stages claim(const std::string& command, const std::string& file, Exit exit = Exit::exited(0),
             Shell shell = Shell::bash) {
  return claim_stages(command, exit,
                      {parse_stage_record(file), parse_stage_history(file), true, shell});
}

Verdict verdict(const std::string& command, const std::string& file) {
  return judge(Exit::exited(0), claim(command, file));
}

std::string findings(const Stages& stages) {
  std::string text;
  for (const EarlierPipeline& one : stages.earlier) {
    text += (text.empty() ? "" : " ") + std::string(to_word(one.finding));
  }
  return text;
}

TEST(Stages, shells_go_by_their_names) {
  for (const char* path : {"/bin/bash", "bash", "/opt/x/bash-5.2"})
    EXPECT_EQ(shell_of(path), Shell::bash) << path;
  for (const char* path : {"/bin/zsh", "/usr/bin/zsh-5.9"})
    EXPECT_EQ(shell_of(path), Shell::zsh) << path;
  for (const char* path : {"", "/bin/sh", "/bin/dash", "/bin/rbash", "/bin/rzsh", "/bin/ksh",
                           "/bin/zsh-static", "/bin/bash-", "/bash/fish"})
    EXPECT_EQ(shell_of(path), Shell::other) << path;
}

TEST(Stages, what_would_show_the_hook_is_not_watched) {
  for (const char* command :
       {"set -v; a | b", "set -euxv; a | b", "x; set -eo verbose; a | b",
        "shopt -so verbose; a | b", "BASH_XTRACEFD=3; a | b",
        "trap 'echo $BASH_COMMAND' EXIT; a | b", "trap x DEBUG; a | b", "set -r; a | b",
        "set -o restricted; a | b", "PS4='$((++n)) '; set -x; a | b", "a"})
    EXPECT_FALSE(may_watch(Shell::bash, command)) << command;
  for (const char* command :
       {"set -x; a | b", "set -eo pipefail; a | b", "npm set-x -v | b", "set -- -v; a | b",
        "set -eo pipefail -x; a | b", "git add -v . | tail", "a | b; set -e"})
    EXPECT_TRUE(may_watch(Shell::bash, command)) << command;
  EXPECT_TRUE(may_watch(Shell::zsh, "set -v; a | b"));
  EXPECT_FALSE(may_watch(Shell::other, "a | b"));
  EXPECT_TRUE(may_keep_history(Shell::bash, "a | b; c"));
  EXPECT_FALSE(may_keep_history(Shell::zsh, "a | b; c"));
}

TEST(Stages, history_is_what_is_whole) {
  const StageHistory history = parse_stage_history(
      "h 3 1 0\nh x\nh 4 1\nh 5 1 999\nnonsense\nh truncated\nh 7 2 0 0\ne 7\n0 2 0 0\nh 9 1 0");
  EXPECT_TRUE(history.truncated);
  EXPECT_EQ(history.pipelines, (std::vector<std::vector<int>>{{1, 0}}));
  EXPECT_TRUE(parse_stage_history("").pipelines.empty());
  std::string much;
  for (int i = 0; i < 1000; ++i) much += "h " + std::to_string(i) + " 1 0\n";
  EXPECT_EQ(parse_stage_history(much).pipelines.size(), 256U);
}

struct Row {
  const char* command;
  const char* file;
  Verdict verdict;
  const char* findings;  // of earlier pipelines
};

// An earlier pipeline counts when a stage before its last failed and nothing looks at that.
const Row kRows[] = {
    {"cargo test | tail; echo rc=$?", "h 3 101 0\ne 4\n0 0\n", Verdict::stage_failed, "failed"},
    {"cargo test | tail && echo ok", "h 3 101 0\n0 0\n", Verdict::stage_failed, "failed"},
    {"cargo test | tail\necho ok\n", "h 3 101 0\n0 0\n", Verdict::stage_failed, "failed"},
    {"a | b; exec c", "h 3 1 0\n", Verdict::stage_failed, "failed"},
    {"cd x && cargo test 2>&1 | tail && echo ok", "h 3 101 0\n0 0\n", Verdict::stage_failed,
     "failed"},
    {"a | b; true | cat", "h 3 1 0\n0 0 0\n", Verdict::stage_failed, "failed"},
    {"a | b; c | d; echo", "h 3 1 0\n0 0\n", Verdict::stage_failed, "failed"},
    {"cargo test | tail; echo ${PIPESTATUS[0]}", "h 3 101 0\n0 0\n", Verdict::stage_failed,
     "failed"},
    {". venv/activate; pytest | tail; echo x", "h 3 1 0\n0 0\n", Verdict::stage_failed, "failed"},
    {"trap 'rm f' EXIT; make | tail; echo x", "h 3 2 0\n", Verdict::stage_failed, "failed"},
    // The command looks at it.
    {"a | b || c; d", "h 3 1 0\n0 0\n", Verdict::ok, "tested"},
    {"a | b && c || d; e", "h 3 1 0\n0 0\n", Verdict::ok, "tested"},
    {"! a | b; c", "h 3 1 0\n0 0\n", Verdict::ok, "tested"},
    {"a | b && c; d", "h 3 2 1\n0 0\n", Verdict::ok, "tested"},
    {"a | b; rc=${PIPESTATUS[0]}; exit 0", "h 3 1 0\n0 0\n", Verdict::ok, "tested"},
    {"a | b; [ ${PIPESTATUS[0]} -le 1 ] || exit 1", "h 3 1 0\n0 0\n", Verdict::ok, "tested"},
    // Nothing was hidden.
    {"grep x f | wc -l; echo", "h 3 1 0\n0 0\n", Verdict::ok, "excused"},
    {"yes | head -n 1; echo", "h 3 141 0\n0 0\n", Verdict::ok, "excused"},
    {"a | b; c", "h 3 0 1\n0 0\n", Verdict::ok, "excused"},
    {"a | b; c", "h 3 141 1\n0 0\n", Verdict::ok, "excused"},
    {"for i in 1 2; do yes | head; c; done", "h 3 141 0\n0 0\n", Verdict::ok, "excused"},
    // Nobody can tell.
    {"for i in 1 2; do a | b; c; done", "h 3 1 0\n0 0\n", Verdict::ok, "unsure"},
    {"if a | b; then c; fi", "h 3 1 0\n0 0\n", Verdict::ok, "unsure"},
    {"while a | b; do c; done; d", "h 3 1 0\n0 0\n", Verdict::ok, "unsure"},
    {"{ a | b; }; c", "h 3 1 0\n0 0\n", Verdict::ok, "unsure"},
    {"eval 'a | b'; c", "h 3 1 0\n0 0\n", Verdict::ok, "unsure"},
    {"a | b | c; d", "h 3 1 0\n0 0\n", Verdict::ok, "unsure"},
    {"grep x f | wc; a | b; c", "h 3 1 0\n0 0\n", Verdict::ok, "unsure"},
    {"grep x f | wc; a | b; c", "h 3 2 0\n0 0\n", Verdict::stage_failed, "failed"},
    {"trap 'a | b' USR1; c | d; e", "h 3 1 0\n0 0\n", Verdict::ok, "unsure"},
    // A trap's own commands may have seen the last one.
    {"trap 'echo bye' EXIT; a | b", "h 3 1 0\n", Verdict::ok, "unsure"},
    {"trap 'echo bye' EXIT; c | d; a | b", "h 3 1 0\n", Verdict::ok, "unsure"},
    {"a | b & c", "h 3 1 0\n0 0\n", Verdict::ok, ""},
};

TEST(Stages, I9_earlier_pipelines) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.command);
    EXPECT_EQ(to_word(verdict(row.command, row.file)), to_word(row.verdict));
    EXPECT_EQ(findings(claim(row.command, row.file)), row.findings);
  }
}

TEST(Stages, with_pipefail_no_pipeline_hides_a_failure) {
  for (const char* command : {"set -o pipefail; a | b && echo ok; echo end",
                              "set -eo pipefail; a | b; rc=$?; echo $rc"}) {
    const Stages stages = claim(command, "h 2 1 0\n0 0\n");
    EXPECT_EQ(findings(stages), "tested") << command;
    EXPECT_EQ(judge(Exit::exited(0), stages), Verdict::ok) << command;
  }
}

TEST(Stages, I9_a_condition_that_said_no_is_no_failure) {
  for (const char* command :
       {"if echo a | grep -q z; then echo found; fi", "while ps | grep -q x; do sleep 1; done",
        "{ ! echo a | grep -q z; }", "for w in a; do ! echo a | grep -q z || exit 1; done"}) {
    const Stages stages = claim(command, "0 0 1\n");
    EXPECT_EQ(stages.reason, StagesReason::not_last) << command;
    EXPECT_EQ(judge(Exit::exited(0), stages), Verdict::ok) << command;
  }
  EXPECT_EQ(verdict("set -o pipefail; ! false | true", "0 1 0\n"), Verdict::ok);
  EXPECT_EQ(verdict("for p in a b; do grep z f | wc -l; done", "0 1 0\n"), Verdict::ok);
  EXPECT_EQ(verdict("for p in a b; do cargo test | tail; done", "0 101 0\n"),
            Verdict::stage_failed);
}

TEST(Stages, what_would_change_the_command_is_not_watched) {
  EXPECT_FALSE(may_watch(Shell::bash, "set -euo pipefail; true | true; echo $nope | cat"));
  EXPECT_FALSE(may_watch(Shell::bash, "ulimit -f 0; a | b"));
  EXPECT_TRUE(may_watch(Shell::bash, "set -eu; a | b"));
  EXPECT_FALSE(may_keep_history(Shell::bash, "a | b & wait $!"));
  EXPECT_FALSE(may_keep_history(Shell::bash, "coproc a; b | c"));
  EXPECT_TRUE(may_keep_history(Shell::bash, "a 2>&1 | b && c; d |& e; f &>g"));
}

TEST(Stages, a_subshell_is_not_watched_and_that_is_said) {
  EXPECT_TRUE(claim("a | b; (cd / && c)", "e 2\n0 0\n").history_truncated);
  EXPECT_FALSE(claim("a | b; echo $(c) $((1 + 2)) <(d)", "e 2\n0 0\n").history_truncated);
}

TEST(Stages, an_earlier_failure_is_claimed_with_its_texts) {
  const Stages stages = claim("cargo test | tail; true | cat", "h 3 101 0\n0 0 0\n");
  ASSERT_EQ(stages.claimed.size(), 2U);
  EXPECT_TRUE(stages.claims_earlier);
  EXPECT_FALSE(stages.reason);
  EXPECT_EQ(stages.claimed[0].command, "cargo test");
  const Stages two = claim("a | b; c | d; echo", "h 3 101 0\n0 0\n");
  EXPECT_EQ(two.claimed.at(0).command, "");  // one of them
  const Stages sure = claim("cargo test | tail; echo rc=$?", "h 3 101 0\n0 0\n");
  EXPECT_EQ(sure.claimed.at(0).command, "cargo test");
  EXPECT_EQ(describe(Exit::exited(0), sure, judge(Exit::exited(0), sure)),
            "exit 0, but stage 1 of 2 (cargo test) exited 101");
  // The last pipeline is told when it failed itself.
  const Stages last = claim("a | b; c | d | e", "h 3 1 0\n0 4 0 0\n");
  EXPECT_EQ(last.claimed.size(), 3U);
  EXPECT_FALSE(last.claims_earlier);
}

TEST(Stages, what_cannot_be_judged_is_told) {
  const Stages stages = claim("for i in 1; do a | b; c; done", "h 3 101 0\n0 0\n");
  EXPECT_EQ(describe(Exit::exited(0), stages, Verdict::ok),
            "exit 0; a pipeline ended with 101, 0 (not judged)");
  EXPECT_EQ(stages.reason, StagesReason::not_last);
}

TEST(Stages, I9_a_record_that_disagrees_is_not_believed) {
  const Stages stages = claim("a | b; c", "h 3 1 0\n7 0\n");
  EXPECT_EQ(stages.reason, StagesReason::mismatch);
  EXPECT_TRUE(stages.earlier.empty());
  EXPECT_FALSE(stages.history_kept);
}

TEST(Stages, zsh_keeps_no_history) {
  const Stages stages = claim("a | b; c", "0 0\n", Exit::exited(0), Shell::zsh);
  EXPECT_EQ(stages.reason, StagesReason::not_last);
  EXPECT_FALSE(stages.history_kept);
  const Stages claimed = claim("a | b", "0 1 0\n", Exit::exited(0), Shell::zsh);
  EXPECT_EQ(claimed.claimed.at(0).finding, StageFinding::failed);
}

}  // namespace
}  // namespace waybill::core
