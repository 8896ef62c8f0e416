// What a command does under the hook is what it does without: exit, stdout and stderr of many nasty
// commands, byte by byte, against the plain shell. The shells are real; nothing else takes part.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "supervise/stage_hook.h"

namespace waybill::supervise {
namespace {

struct Ran {
  int status = -1;  // as waitpid gives it
  std::string out;
  std::string err;
  std::string stages;  // what the hook wrote
};

std::string slurp(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class HookDifferential : public ::testing::Test {
 protected:
  HookDifferential() {
    char name[] = "/tmp/waybill-hook-XXXXXX";
    dir_ = mkdtemp(name);
    mkdir((dir_ + "/home").c_str(), 0700);
  }
  ~HookDifferential() override {
    std::error_code error;
    std::filesystem::remove_all(dir_, error);
  }

  LaunchOrder order(const std::string& shell, const std::string& command) const {
    LaunchOrder order;
    order.shell = shell;
    order.command = command;
    order.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir_ + "/home", "LANG=C.UTF-8"};
    order.env.insert(order.env.end(), more_env_.begin(), more_env_.end());
    return order;
  }

  Ran plain(const LaunchOrder& order) { return run(order, order.env); }

  Ran hooked(const LaunchOrder& order) {
    std::vector<std::string> env = order.env;
    const StageHook hook = make_stage_hook(order, dir_, env);
    if (hook.file != nullptr) std::ofstream(dir_ + "/" + hook.file) << hook.text;
    return run(order, env);
  }

  // The plain shell and the hooked one agree; what the hook wrote.
  std::string expect_same(const LaunchOrder& order, bool sorted = false) {
    SCOPED_TRACE(order.shell + " -c " + order.command);
    const Ran without = plain(order);
    const Ran with = hooked(order);
    EXPECT_EQ(with.status, without.status);
    EXPECT_EQ(with.out, without.out);
    EXPECT_EQ(sorted ? lines(with.err) : with.err, sorted ? lines(without.err) : without.err);
    EXPECT_EQ(without.stages, "");
    return with.stages;
  }

  // Stages run at the same time and trace in any order.
  static std::string lines(const std::string& text) {
    std::vector<std::string> all;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) all.push_back(line);
    std::sort(all.begin(), all.end());
    std::string joined;
    for (const std::string& line : all) joined += line + "\n";
    return joined;
  }

  std::string dir_;
  std::vector<std::string> more_env_;
  bool from_file_ = false;  // as commands are that no argument can hold

 private:
  Ran run(const LaunchOrder& order, const std::vector<std::string>& env) {
    const std::string work = dir_ + "/work";
    std::filesystem::remove_all(work);
    std::filesystem::remove(dir_ + "/stages");
    mkdir(work.c_str(), 0700);
    if (from_file_) std::ofstream(dir_ + "/command") << order.command;
    Ran ran;
    const pid_t child = fork();
    if (child == 0) exec(order, env, work);
    EXPECT_EQ(waitpid(child, &ran.status, 0), child);
    ran.out = slurp(dir_ + "/out");
    ran.err = slurp(dir_ + "/err");
    ran.stages = slurp(dir_ + "/stages");
    return ran;
  }

  [[noreturn]] void exec(const LaunchOrder& order, const std::vector<std::string>& env,
                         const std::string& work) const {
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(open((dir_ + "/out").c_str(), flags, 0600), 1);
    dup2(open((dir_ + "/err").c_str(), flags, 0600), 2);
    for (int fd = 3; fd < 64; ++fd) close(fd);
    setsid();
    std::vector<char*> words;
    for (const std::string& entry : env) words.push_back(const_cast<char*>(entry.c_str()));
    words.push_back(nullptr);
    if (chdir(work.c_str()) == 0) {
      const std::string file = dir_ + "/command";
      if (from_file_) {
        execle(order.shell.c_str(), order.shell.c_str(), file.c_str(), nullptr, words.data());
      } else {
        execle(order.shell.c_str(), order.shell.c_str(), "-c", order.command.c_str(), nullptr,
               words.data());
      }
    }
    _exit(99);
  }
};

struct Row {
  const char* command;
  bool sorted = false;
};

// Each holds a pipeline and is captured, in bash and in zsh.
const Row kBoth[] = {
    {"false | true"},
    {"yes | head -n 1"},
    {"false | true; exit 0"},
    {"false | true; exit"},
    {"exit 7 | cat"},
    {"false | true; exec true"},
    {"exec sh -c 'exit 5' | cat"},
    {"trap 'echo bye' EXIT; false | true"},
    {"trap 'echo bye' EXIT; false | true; exit 4"},
    {"false | true\necho )\n"},
    {"echo hi | | cat"},
    {"cat <<E | false | true\nbody\nE"},
    {"cat <<E | cat\nbody"},
    {"echo a\nfalse |\n true\nnosuch-xyz\necho $((1/0))"},
    {"set -e; true | false; echo no"},
    {"set -e; false | true; echo yes; false; echo no"},
    {"set -eo pipefail; false | true; echo no"},
    {"false | true & wait"},
    {"false | true; sleep 0 &"},
    {"false | true && echo done"},
    {"false | true || echo x"},
    {"false | true; echo rc=$?"},
    {"true | (exit 3); echo rc=$?"},
    {"(false | true); { false | true; }"},
    {"if false | true; then echo yes; else echo no; fi"},
    {"if true | false; then echo yes; else echo no; fi; echo $?"},
    {"for i in 1 2 3; do false | true; echo $i $?; done"},
    {"i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo $i | cat; done"},
    {"f() { false | true; echo in $?; return 3; }; f; echo $?; f | cat"},
    {"! false | true; echo $?"},
    {"x=$(false | true; echo y); echo \"$x\""},
    {"sh -c 'kill -9 $$' | cat"},
    {"false | true; kill -9 $$"},
    {"true | true; kill -TERM $$"},
    {"trap 'echo term; exit 3' TERM; true | true; kill -TERM $$; echo no"},
    {"set -x; false | true; echo $?", true},
    {"set -ex; echo a | cat; false; echo no", true},
    {"set -u; true | true; echo $nope"},
    {"bash -c 'false | true' | cat; zsh -c 'false | true'; echo $?"},
    {"echo 'false | true; echo sourced' >s; . ./s; echo $?"},
    {"case x in x) false | true; echo $?;; esac"},
    {"echo a; nosuch-xyz | cat; echo b >&2"},
    {"set -C; false | true; echo x >f; echo y >f; echo $?"},
    {"exec 1>&-; false | true; echo a"},
    {"exec 2>&-; false | true; nosuch-xyz; echo a"},
    {"exec 2>err; false | true; nosuch-xyz; cat err"},
    {"cd /; false | true; pwd"},
    {"IFS=0123456789; false | true; a=10; echo $a"},
    {"printf() { echo mine; }; print() { echo mine; }; false | true; printf a"},
    {"mkdir -p x/y | cat; mkdir x/z && cd $_ && pwd | sed 's/.*work//'"},
    {"true one two; echo $_ | cat; true three; echo $_"},
    {"env | grep -c BASH_ENV; env | grep -c ZDOTDIR; env | sort | sed '/^_=/d'"},
    {"echo \"[$BASH_ENV][$ZDOTDIR]\" | cat; env -u X sh -c 'env | grep -c ZDOTDIR'"},
    {"readlink /proc/self/fd/* 2>/dev/null | grep -c waybill-hook"},
    {"umask 077; false | true; umask"},
    {"trap 'echo err $?' ERR; false | true; false; (exit 2)"},
    {"false | true; wait; echo $?; sleep 0 & wait $!; echo $?"},
    {"eval 'false | true; echo z $?'; eval 'exit 3 | cat'"},
    {"echo $0 $# $- | tr -d c; set -- a b; echo $# | cat"},
    {"read -r x </dev/null | cat; echo $?; printf 'a\\nb\\n' | while read -r l; do echo $l; done"},
    {"false | true; cat <<E\n$? ${x:-none}\nE"},
    {"rm -rf ../stages ../hook.bash; false | true; echo $?"},
    {"set -e; f() { false | true; false; echo no; }; f || echo handled; f; echo no"},
};

const Row kBash[] = {
    {"false | true; echo \"${PIPESTATUS[@]}\" \"${PIPESTATUS[@]}\""},
    {"true | false | true; x=$?; echo $x; a=(1 2); false | true; echo ${PIPESTATUS[0]}"},
    {"set -o functrace; f() { false | true; echo in; }; f; (false | true; echo sub); echo end"},
    {"set -T -E; trap 'echo err' ERR; f() { false | true; false; }; f; echo x"},
    {"shopt -s extdebug; false | true; echo yes"},
    {"shopt -s lastpipe; echo v | read -r x; echo $x ${PIPESTATUS[*]}"},
    {"shopt -s expand_aliases\nalias printf='echo mine' builtin='echo mine' trap='echo mine'\n"
     "false | true\necho $?"},
    {"set -o posix; false | true; echo x"},
    {"false |& true; time -p true | true 2>/dev/null; echo", true},
    {"coproc cat; false | true; echo x; kill $COPROC_PID"},
    {"((1)); false | true; [[ a == a ]]; echo $?; ((0)); echo $?"},
    {"echo $LINENO | cat\necho $LINENO\nnosuch-xyz\n: ${x?unset}"},
    {"f() { caller; echo ${FUNCNAME[*]} ${BASH_LINENO[*]} ${#BASH_SOURCE[@]}; }; f | cat; f"},
    {"trap 'echo $LINENO' ERR; false | true\nfalse\necho ${PIPESTATUS[*]}"},
    {"trap 'echo int' INT; false | true; kill -INT $$; echo after"},
    {"false | true; return 3; echo $?"},
    {"set -euo pipefail; true | true; trap 'echo bye $?' EXIT; false | true; echo no"},
    {"declare -r IFS=:; false | true; echo a:b"},
    {"set -a; X=1; false | true; echo x; env | grep -c __wb; env | sort | grep -v '^_='"},
    {"PS4='$((++n)) '; set -x; true | true; echo $n", true},
    {"set -r; false | true; echo x >f; echo $?"},
    {"set -m; false | true; sleep 0 & wait; jobs; trap 'echo child' CHLD; true | true"},
    {"set -f; set -k; false | true; echo *; set +o braceexpand; echo {a,b}"},
    {"shopt -s failglob nullglob nocasematch; false | true; echo $?"},
    {"exec 3>&1; false | true; echo x >&3; exec 3>&-; readlink /proc/self/fd/3; echo $?"},
    {"set -euo pipefail; true | true; echo $nope | cat"},
    {"ulimit -f 0 2>/dev/null; false | true; echo a >f; echo $?"},
    // Not captured, because the hook would show.
    {"set -v\nfalse | true\necho x"},
    {"set -eo verbose\nfalse | true\necho x"},
    {"BASH_XTRACEFD=1; set -x; false | true", true},
    {"trap 'echo $BASH_COMMAND' EXIT; false | true; exit 3"},
    {"trap 'echo debug' DEBUG; false | true; echo x"},
    {"false | true; trap -p DEBUG; trap - DEBUG; echo x"},
};

const Row kZsh[] = {
    {"false | true\necho $pipestatus $?"},
    {"setopt ksharrays shwordsplit ignorebraces nounset; IFS=01; false | true; echo $?"},
    {"setopt errexit errreturn; false | true; echo a; false; echo no"},
    {"setopt noclobber printexitvalue; false | true; false; echo x"},
    {"emulate sh; false | true; echo $?"},
    {"emulate -R ksh; false | true; echo $?"},
    {"setopt verbose\nfalse | true"},
    {"set -v; false | true"},
    {"TRAPEXIT() { echo bye; }; false | true"},
    {"TRAPZERR() { echo err $?; }; false | true; false; true | false"},
    {"zshexit() { echo hook; }; false | true"},
    {"f() { trap 'echo F' EXIT; false | true; }; f; false | true; return 4"},
    {"{ false | true } always { echo always }; false | true"},
    {"setopt warncreateglobal typesetsilent; f() { false | true; }; f; true | true"},
    {"unsetopt multios bareglobqual; echo a | cat >f >g; cat f g"},
    {"a=(x y); echo $a[2] | cat; echo ${(j:,:)a}"},
    {"trap 'echo dbg' DEBUG; false | true; echo x"},
    {"echo $((1/0)) | cat\necho )"},
    {"print -r -- $ZSH_EVAL_CONTEXT ${#funcstack} | cat"},
};

TEST_F(HookDifferential, I9_bash_is_bash_under_the_hook) {
  for (const Row& row : kBoth) {
    const LaunchOrder one = order("/bin/bash", row.command);
    EXPECT_EQ(captured_shell(one), core::Shell::bash) << row.command;
    expect_same(one, row.sorted);
  }
  for (const Row& row : kBash) expect_same(order("/bin/bash", row.command), row.sorted);
}

// A DEBUG trap makes bash lose such statuses in some of the runs.
TEST_F(HookDifferential, I9_background_pipelines_keep_their_statuses) {
  const LaunchOrder one =
      order("/bin/bash", "set -o pipefail; sh -c 'exit 3' | cat & wait $!; echo $? | cat");
  ASSERT_EQ(captured_shell(one), core::Shell::bash);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(hooked(one).out, "3\n") << i;
}

TEST_F(HookDifferential, I9_zsh_is_zsh_under_the_hook) {
  for (const Row& row : kBoth) {
    const LaunchOrder one = order("/bin/zsh", row.command);
    EXPECT_EQ(captured_shell(one), core::Shell::zsh) << row.command;
    expect_same(one, row.sorted);
  }
  for (const Row& row : kZsh) expect_same(order("/bin/zsh", row.command), row.sorted);
}

// What docs/truth.md lists as different: the traps are listed when a command asks for all.
TEST_F(HookDifferential, only_a_list_of_all_traps_names_the_hook) {
  const LaunchOrder bash = order("/bin/bash", "true | true; trap");
  EXPECT_EQ(plain(bash).out, "");
  EXPECT_NE(hooked(bash).out.find(" EXIT\n"), std::string::npos);
  const LaunchOrder zsh = order("/bin/zsh", "true | true; trap");
  EXPECT_NE(hooked(zsh).out.find(" EXIT\n"), std::string::npos);
}

TEST_F(HookDifferential, zsh_reads_the_users_own_start_file_as_ever) {
  const char* command = "echo st=$? zd=${ZDOTDIR-unset} $MINE; env | grep ZDOTDIR; false | true";
  const std::string home = dir_ + "/home";
  const std::string other = dir_ + "/other dir";
  mkdir(other.c_str(), 0700);
  for (const char* text : {"", "MINE=yes", "MINE=yes; false", "return 5", "exit 6", "nosuch-xyz",
                           "setopt ksharrays errexit", "set -x", "setopt norcs; ZDOTDIR=/x",
                           "trap 'echo mine' EXIT", "alias builtin=false print=false; set -C",
                           "export ZDOTDIR=$HOME/elsewhere", "unset HOME"}) {
    SCOPED_TRACE(text);
    for (const std::string& folder : {home, other}) std::ofstream(folder + "/.zshenv") << text;
    more_env_.clear();
    expect_same(order("/bin/zsh", command), true);
    more_env_ = {"ZDOTDIR=" + other};
    expect_same(order("/bin/zsh", command), true);
    more_env_ = {"ZDOTDIR="};  // the root folder, which has none
    expect_same(order("/bin/zsh", command), true);
  }
  more_env_.clear();
  std::filesystem::remove(home + "/.zshenv");
  EXPECT_EQ(expect_same(order("/bin/zsh", command)), "0 1 0\n");
  mkdir((home + "/.zshenv").c_str(), 0700);
  EXPECT_EQ(expect_same(order("/bin/zsh", command)), "0 1 0\n");
}

TEST_F(HookDifferential, bash_reads_the_users_own_start_file_as_ever) {
  const std::string own = dir_ + "/own env";
  more_env_ = {"BASH_ENV=$HOME/../own env"};
  const char* command = "echo $?; echo $MINE \"$BASH_ENV\"; false | true; echo x";
  for (const char* text : {"MINE=yes", "exit 6", "nosuch-xyz", "trap 'echo mine' EXIT", "set -u",
                           "shopt -s extdebug", "true a | false b"}) {
    std::ofstream(own) << text << "\n";
    expect_same(order("/bin/bash", command));
  }
  std::ofstream(own) << "MINE=yes\n";
  const core::StageHistory history =
      core::parse_stage_history(expect_same(order("/bin/bash", command)));
  EXPECT_EQ(history.pipelines, (std::vector<std::vector<int>>{{1, 0}}));
  more_env_ = {"BASH_ENV=/no/such \"file"};
  expect_same(order("/bin/bash", "echo $? | cat; echo \"$BASH_ENV\""));
}

// A wrapper that is a script of bash must not take the hook for its own.
TEST_F(HookDifferential, I9_a_wrapping_script_writes_no_stages) {
  LaunchOrder inner = order("/bin/bash", "false | true; true");
  inner.wrapper = {"/bin/bash", "-c", "false | true; \"$@\"", "wrapper"};
  std::vector<std::string> env = inner.env;
  const StageHook hook = make_stage_hook(inner, dir_, env);
  ASSERT_NE(hook.file, nullptr);
  std::ofstream(dir_ + "/" + hook.file) << hook.text;
  LaunchOrder outer = order("/bin/bash", "false | true; /bin/bash -c 'false | true; true'; :");
  outer.env = env;
  EXPECT_EQ(plain(outer).stages, "h 3 1 0\ne 4\n0 0\n");
}

TEST_F(HookDifferential, a_command_that_is_a_file_is_watched_alike) {
  from_file_ = true;
  const char* command = "f() { false | true; }; f; true | false\nnosuch-xyz; false | (exit 0)";
  EXPECT_EQ(expect_same(order("/bin/zsh", command)), "0 1 0\n");
  const std::string bash = expect_same(order("/bin/bash", command));
  EXPECT_EQ(core::parse_stage_record(bash)->statuses, (std::vector<int>{1, 0}));
  EXPECT_EQ(core::parse_stage_history(bash).pipelines, (std::vector<std::vector<int>>{{0, 1}}));
}

TEST_F(HookDifferential, history_is_bounded) {
  const std::string loop = "for i in {1..700}; do (exit $((i % 2 + 1))) | true; echo; done";
  const core::StageHistory history =
      core::parse_stage_history(expect_same(order("/bin/bash", loop)));
  EXPECT_TRUE(history.truncated);
  EXPECT_LE(history.pipelines.size(), 201U);
  EXPECT_GE(history.pipelines.size(), 100U);
  const core::StageHistory quiet = core::parse_stage_history(
      expect_same(order("/bin/bash", "for i in {1..1100}; do :; done; false | true; echo")));
  EXPECT_TRUE(quiet.truncated);
  EXPECT_TRUE(quiet.pipelines.empty());
}

}  // namespace
}  // namespace waybill::supervise
