#include "core/pipeline.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace waybill::core {
namespace {

using Texts = std::vector<std::string>;

TEST(Pipeline, scan_finds_a_pipe_that_is_not_an_or) {
  for (const char* text :
       {"a | b", "a|b", "a |& b", "echo 'a|b'", "a || b | c", "a ||| b", "x >| y"})
    EXPECT_TRUE(may_hold_pipeline(text)) << text;
  for (const char* text : {"", "a", "a || b", "a||b||c", "a && b", "a ||\n b"})
    EXPECT_FALSE(may_hold_pipeline(text)) << text;
}

struct Row {
  std::string command;
  Texts stages;
};

// What the tokenizer is sure of.
const std::vector<Row> kSure{
    {"false | true", {"false", "true"}},
    {"  cargo test 2>&1 |tail -n 20  ", {"cargo test 2>&1", "tail -n 20"}},
    {"a |& b", {"a", "b"}},
    {"a|b|c", {"a", "b", "c"}},
    {"false | true; exit 0", {"false", "true"}},
    {"false | true # c | d", {"false", "true"}},
    {"false \\\n | true", {"false", "true"}},
    {"echo a\nfalse |\n true\n", {"false", "true"}},
    {"false | # why\n true", {"false", "true"}},
    {"true && false | true", {"false", "true"}},
    {"false | true || echo x", {"false", "true"}},
    {"false | true && echo done", {"false", "true"}},
    {"! false | true", {"false", "true"}},
    {"time -p false | true 2>/dev/null", {"time -p false", "true 2>/dev/null"}},
    {"echo 'a | b' | cat", {"echo 'a | b'", "cat"}},
    {"echo \"a | $(b | c)\" | cat", {"echo \"a | $(b | c)\"", "cat"}},
    {"echo $'it\\'s | x' | cat", {"echo $'it\\'s | x'", "cat"}},
    {"echo a\\|b | cat", {"echo a\\|b", "cat"}},
    {"echo `a | b` | cat", {"echo `a | b`", "cat"}},
    {"echo $((1 | 2)) $((1 << 2)) | cat", {"echo $((1 | 2)) $((1 << 2))", "cat"}},
    {"echo ${x:-a|b} | cat", {"echo ${x:-a|b}", "cat"}},
    {"(cd x && make | tee log) | tail", {"(cd x && make | tee log)", "tail"}},
    {"{ a; b | c; } 2>&1 | tail", {"{ a; b | c; } 2>&1", "tail"}},
    {"diff <(a | b) <(c) | head", {"diff <(a | b) <(c)", "head"}},
    {"a | tee >(b | c) | d", {"a", "tee >(b | c)", "d"}},
    {"a >| f | b", {"a >| f", "b"}},
    {"a &>f | b", {"a &>f", "b"}},
    {"a 2>&1 >/dev/null | b", {"a 2>&1 >/dev/null", "b"}},
    {"2>/dev/null a | b", {"2>/dev/null a", "b"}},
    {"cat <<< 'x | y' | b", {"cat <<< 'x | y'", "b"}},
    {"X=1 a | b", {"X=1 a", "b"}},
    {"[[ a == b || c < d ]] && x | y", {"x", "y"}},
    {"cd a && x | y; cd b && z | w | v", {"z", "w", "v"}},
    {"x | y; echo; z | w", {"z", "w"}},
    {"a | b; c | d &", {"a", "b"}},
    {"c | d & a | b", {"a", "b"}},
    {". venv/bin/activate && pytest | tail", {"pytest", "tail"}},
    {"set -eo pipefail; false | true; echo no", {"false", "true"}},
    {"(a | b); c | d", {"c", "d"}},
    {"exec sh -c 'exit 5' | cat", {"exec sh -c 'exit 5'", "cat"}},
    {"echo a#b | cat", {"echo a#b", "cat"}},
    {"printf é | cat", {"printf é", "cat"}},
};

TEST(Pipeline, stages_of_the_last_pipeline) {
  for (const Row& row : kSure) EXPECT_EQ(last_pipeline(row.command), row.stages) << row.command;
}

// Where it must not guess.
TEST(Pipeline, gives_up_rather_than_guess) {
  for (const char* text : {
           "",
           "a",
           "a | | b",
           "| a",
           "a |",
           "a | b )",
           "(a | b",
           "a | 'b",
           "a | \"b",
           "a | `b",
           "cat <<E | cat\nbody\nE",
           "cat <<E | cat\nbody",
           "false | true\necho )\n",
           "for i in 1 2; do a | b; done",
           "if a | b; then c; fi",
           "case x in x) a | b;; esac",
           "while read x; do echo $x; done | sort",
           "f() { a | b; }; f",
           "function f { a | b; }; f",
           "f(){ a | b; }",
           "x=(1 2) ; a | b",
           "(( x | y ))",
           "a | b ;; c",
           "a | b;& c",
           "a | b & wait",
           "x=$(a | b); echo $x",
           "(a | b)",
           "{ a | b; }",
           "a | b; { c | d; }",
           "a | b; eval 'c | d; exit'",
           "a | b; . ./more.sh",
           "a | b; \"$TOOL\" x",
           "set -e; a | b; c | d",
           "a | b; exit 3; c | d",
           "a | b || c | d",
           "a | b && c | d",
           "a | b; echo ${x:?no}; c | d",
           "! a | b && c | d",
           "a | b && c | d; sleep 1 &",
           "a | { c | d; }",
           "echo $(case x in x) echo;; esac) | cat",
           "echo $(cat <<E\nE\n) | cat",
           "a &| b",
           "coproc a | b",
           "echo $[1|2] | cat",
           "echo \"${x:-'}'}\" | cat",
           "a >|",
           "a > | b",
           "echo } | cat",
           "{a,b} | cat",
       })
    EXPECT_EQ(last_pipeline(text), Texts{}) << text;
}

TEST(Pipeline, and_chain_is_named_only_after_success) {
  const CommandShape shape = shape_of("cargo build | tail && cargo test | tail");
  EXPECT_TRUE(shape.after_success_only);
  EXPECT_EQ(shape.stages, (Texts{"cargo test", "tail"}));
}

TEST(Pipeline, shape_of_what_is_no_pipeline) {
  EXPECT_TRUE(shape_of("echo 'a | b'").understood);
  EXPECT_FALSE(shape_of("echo 'a | b'").holds_pipeline);
  EXPECT_TRUE(shape_of("(a | b)").holds_pipeline);
  EXPECT_TRUE(shape_of("x=$(a | b)").holds_pipeline);
  EXPECT_TRUE(shape_of("a | b & wait").holds_pipeline);
  EXPECT_TRUE(shape_of("a | b; exec c").replaces_shell);
  EXPECT_FALSE(shape_of("exec >log; a | b").replaces_shell);
  EXPECT_FALSE(shape_of("exec a | b").replaces_shell);
}

TEST(Pipeline, program_of_a_stage) {
  const std::vector<std::pair<std::string, std::string>> rows{{"grep x f", "grep"},
                                                              {"/usr/bin/grep x", "grep"},
                                                              {"LC_ALL=C grep x", "grep"},
                                                              {"command grep x", "grep"},
                                                              {"env A=b -i grep x", "grep"},
                                                              {"env -u A grep x", ""},
                                                              {"nice -n 5 grep x", "grep"},
                                                              {"nice -5 grep x", "grep"},
                                                              {"time -p grep x", "grep"},
                                                              {"sudo grep x", "grep"},
                                                              {"sudo -u me grep x", ""},
                                                              {"\"grep\" x", "grep"},
                                                              {"$GREP x", ""},
                                                              {"2>/dev/null grep x", "grep"},
                                                              {"2>&1 grep", "grep"},
                                                              {"(grep x)", ""},
                                                              {"{ grep x; }", ""},
                                                              {"timeout 5 grep x", "grep"},
                                                              {"timeout -k 1 5 grep x", ""},
                                                              {"X=1", ""},
                                                              {"", ""},
                                                              {"env", ""},
                                                              {"`which grep` x", ""},
                                                              {"grep \"$(cat f)\"", "grep"},
                                                              {"diff <(a) <(b)", "diff"},
                                                              {"$(which grep) x", ""},
                                                              {"f() { x; }", ""},
                                                              {"grep x >out 2>&1", "grep"},
                                                              {"exec grep x", "grep"},
                                                              {"\\grep x", "grep"}};
  for (const auto& [stage, program] : rows) EXPECT_EQ(stage_program(stage), program) << stage;
}

TEST(Pipeline, predicates_answer_with_one) {
  for (const char* stage :
       {"grep zzz /etc/hosts", "egrep a", "fgrep a", "rg a", "ag a", "diff a b", "cmp a b",
        "test -f x", "[ -f x ]", "expr 1 - 1", "pgrep x", "git diff --quiet",
        "git -C x diff --exit-code", "diff <(a) <(b)", "LC_ALL=C grep -v a"})
    EXPECT_TRUE(is_predicate(stage)) << stage;
  for (const char* stage : {"git diff", "git push --quiet", "false", "cargo test", "xargs grep x",
                            "", "$GREP x", "./grepper x"})
    EXPECT_FALSE(is_predicate(stage)) << stage;
}

TEST(Pipeline, programs_that_stop_reading_early) {
  for (const char* stage : {"head", "head -n 1", "grep -q x", "grep -qi x", "grep -m1 x",
                            "grep --quiet x", "sed q", "sed 10q", "sed -n '1p;q'", "sed '/x/q'"})
    EXPECT_TRUE(closes_early(stage)) << stage;
  for (const char* stage :
       {"tail", "grep x", "sed s/a/q/", "sed -n p", "cat", "", "wc -l", "grep -- -q"})
    EXPECT_FALSE(closes_early(stage)) << stage;
}

// Any text at all: no crash, and stages are pieces of the text in order.
TEST(Pipeline, I14_any_text_is_survived) {
  const std::string alphabet = "ab |&;()<>{}[]$`'\"\\\n#!=1?x";
  std::mt19937 random(20261130);
  int named = 0;
  for (int round = 0; round < 200'000; ++round) {
    std::string text;
    const std::size_t size = random() % 24;
    for (std::size_t i = 0; i < size; ++i) text += alphabet[random() % alphabet.size()];
    const CommandShape shape = shape_of(text);
    if (!shape.stages.empty()) {
      ++named;
      ASSERT_GE(shape.stages.size(), 2U) << text;
      std::size_t from = 0;
      for (const std::string& stage : shape.stages) {
        const std::size_t at = text.find(stage, from);
        ASSERT_NE(at, std::string::npos) << text;
        ASSERT_FALSE(stage.empty()) << text;
        from = at + stage.size();
        stage_program(stage), is_predicate(stage), closes_early(stage);
      }
    }
  }
  EXPECT_GT(named, 300);
  const std::string deep = std::string(200'000, '(') + "a | b" + std::string(200'000, ')');
  EXPECT_EQ(last_pipeline(deep), Texts{});
  std::string substitutions;
  for (int i = 0; i < 100'000; ++i) substitutions += "$(${";
  EXPECT_EQ(last_pipeline(substitutions), Texts{});
}

}  // namespace
}  // namespace waybill::core
