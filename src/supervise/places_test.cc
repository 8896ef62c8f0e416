// The same supervision in other places: as an ordinary user without a cgroup, in a pid namespace
// whose numbers come round, as pid 1 of one. This program runs itself again there.

#include <gtest/gtest.h>

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include "shim/proc.h"
#include "supervise/cgroup_root.h"
#include "supervise/channel_fixture.h"

namespace waybill::supervise {
namespace {

namespace fs = std::filesystem;
using core::ExitKind;
using core::Proof;
using core::Supervision;

constexpr char kInside[] = "WAYBILL_TEST_INSIDE";

std::string own_program() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : std::string();
}

// Runs a program to its end; its exit status, or -1.
int run_program(std::vector<std::string> words, const std::vector<std::string>& env = {}) {
  const pid_t pid = fork();
  if (pid == 0) {
    for (const std::string& entry : env) putenv(strdup(entry.c_str()));
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    _exit(126);
  }
  int status = 0;
  if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

bool have_namespaces() {
  static const bool have = run_program({"unshare", "--pid", "--fork", "--mount-proc", "true"}) == 0;
  return have;
}

bool inside() { return getenv(kInside) != nullptr; }

std::string filter_of_this_test() {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  return std::string("--gtest_filter=") + info->test_suite_name() + "." + info->name();
}

// ---- as an ordinary user -----------------------------------------------------------------------

constexpr char kSetuid[] = "WAYBILL_TEST_SETUID";
constexpr char kUnified[] = "/sys/fs/cgroup/unified";

class OrdinaryUser : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "the whole program already runs as an ordinary user";
    char path[] = "/tmp/waybill-nobody-XXXXXX";
    dir_ = mkdtemp(path);
    ASSERT_EQ(chmod(dir_.c_str(), 0755), 0);
    copy(own_program(), "test", 0755);
    copy(shim_under_test(), "waybill-shim", 0755);
    // What sudo is on other machines.
    copy("/usr/bin/setpriv", "as-root", 04755);
  }
  void TearDown() override {
    if (!dir_.empty()) fs::remove_all(dir_);
  }

  void copy(const std::string& from, const std::string& name, mode_t mode) const {
    fs::copy_file(from, dir_ + "/" + name);
    ASSERT_EQ(chmod((dir_ + "/" + name).c_str(), mode), 0);
  }

  // These tests as nobody, in the cgroup ("": where we are).
  int run_as_nobody(const std::string& filter, const std::string& cgroup) const {
    return run_program({"sh", "-c",
                        "[ -z \"$1\" ] || echo $$ > \"$1/cgroup.procs\"; umask 000; exec setpriv "
                        "--reuid=65534 --regid=65534 --clear-groups \"$0\" \"--gtest_filter=$2\" "
                        "--gtest_brief=1",
                        dir_ + "/test", cgroup, filter},
                       {"WAYBILL_TEST_SHIM=" + dir_ + "/waybill-shim",
                        std::string(kSetuid) + "=" + dir_ + "/as-root"});
  }

  std::string dir_;
};

TEST_F(OrdinaryUser, I7_every_stop_and_loss_without_privileges_or_cgroup_under_umask_000) {
  const std::string filter =
      "StopTest.*:LostTest.*:GateTest.*:FallbackTest.*:Files.*:Setuid.I7_without*";
  EXPECT_EQ(run_as_nobody(filter, ""), 0);
}

TEST_F(OrdinaryUser, I7_in_a_cgroup_that_was_delegated_to_the_user) {
  const std::string group = std::string(kUnified) + "/waybill-user-" + std::to_string(getpid());
  if (mkdir(group.c_str(), 0755) != 0) {
    GTEST_SKIP() << "no group of version 2 can be made at " << kUnified;
  }
  for (const char* name : {"", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"}) {
    EXPECT_EQ(chown((group + name).c_str(), 65534, 65534), 0) << name;
  }
  EXPECT_EQ(run_as_nobody("CgroupTest.*:Setuid.I7_with_a_cgroup*", group), 0);
  EXPECT_TRUE(eventually([&] { return rmdir(group.c_str()) == 0; }));
}

// A process of another user in the job, which this user may not signal.
class Setuid : public ChannelTest {
 protected:
  // Runs until the test writes to the FIFO.
  JobId start_foreign() {
    EXPECT_EQ(mkfifo((data_dir_ + "/release").c_str(), 0600), 0);
    LaunchOrder launch = order(std::string(getenv(kSetuid)) +
                               " --reuid=0 --regid=0 --clear-groups sh -c "
                               "'echo up; read x < \"$DATA/release\"'; true");
    launch.grace = Millis(100);
    const JobId job = run(std::move(launch));
    wait_output(job, "up");
    return job;
  }
  static bool may_run() { return getenv(kSetuid) != nullptr && geteuid() != 0; }
};

TEST_F(Setuid, I7_without_a_cgroup_what_may_not_be_signalled_is_named_and_waited_for) {
  if (!may_run()) GTEST_SKIP() << "run by OrdinaryUser.*, as nobody";
  const JobId job = start_foreign();
  stop(job);
  const core::JobFacts stuck = wait_for(job, [](const Facts& f) {
    for (const core::ProcessNote& note : f.survivors) {
      if (note.reason == "EPERM_setuid") return true;
    }
    return false;
  });
  EXPECT_NE(stuck.supervision, Supervision::finished);
  EXPECT_FALSE(has_file(job, "final.json"));
  std::ofstream(data_dir_ + "/release") << "x\n";
  EXPECT_EQ(wait_finished(job).proof, Proof::subreaper);
}

TEST_F(Setuid, I7_with_a_cgroup_it_is_killed_like_the_others) {
  if (!may_run()) GTEST_SKIP() << "run by OrdinaryUser.*, as nobody";
  cgroup_root_ = "auto";
  const std::string root = find_cgroup_root("auto", data_dir_).path;
  ASSERT_FALSE(root.empty());
  const JobId job = start_foreign();
  stop(job);
  EXPECT_EQ(wait_finished(job).proof, Proof::subreaper);
  EXPECT_TRUE(eventually([&] { return !fs::exists(root); }));
}

class Files : public ChannelTest {};

TEST_F(Files, O29_are_private_whatever_the_umask) {
  const mode_t before = umask(0);
  LaunchOrder launch = order("false | cat; setsid sleep 300 & exit 0");
  launch.umask = 0;
  launch.leftover_grace = Millis(50);
  const JobId job = run(std::move(launch));
  wait_for(job, [](const Facts& f) { return f.started_at.has_value(); });
  stop(job);
  wait_finished(job);
  umask(before);
  struct stat info{};
  ASSERT_EQ(stat(data_dir_.c_str(), &info), 0);
  std::size_t seen = 0;
  for (const auto& entry : fs::recursive_directory_iterator(data_dir_)) {
    // The job's own shell makes that one, in a directory that nobody else can enter.
    if (entry.path().filename() == "stages") continue;
    ASSERT_EQ(lstat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 077U, 0U) << entry.path();
    ++seen;
  }
  EXPECT_GE(seen, 8U);
}

// ---- where numbers come round ------------------------------------------------------------------

class Namespace : public ChannelTest {
 protected:
  // True when the test was run inside of a pid namespace of its own, by this call.
  bool delegated(bool as_init) {
    if (inside()) return false;
    const std::string self = own_program();
    std::vector<std::string> words = {"unshare", "--pid", "--fork", "--mount-proc"};
    if (as_init) {
      words.insert(words.end(), {self, filter_of_this_test()});
    } else {
      // A shell stays as pid 1.
      words.insert(words.end(),
                   {"sh", "-c", "\"$0\" \"$1\"; exit $?", self, filter_of_this_test()});
    }
    EXPECT_EQ(run_program(words, {std::string(kInside) + "=1"}), 0);
    return true;
  }

  // A child that is given this number, as leader of a session and so of a process group.
  // Started in another clock tick than the one on record: within one nothing tells the two apart.
  static pid_t stranger_with(int wanted, std::uint64_t not_start) {
    for (int i = 0; i < 100; ++i) {
      std::ofstream("/proc/sys/kernel/ns_last_pid") << wanted - 1;
      const pid_t pid = fork();
      if (pid == 0) {
        setsid();
        execl("/bin/sleep", "sleep", "7777", nullptr);
        _exit(127);
      }
      shim::ProcStat stat;
      if (pid == wanted && shim::read_proc_stat(pid, stat) && stat.start != not_start) return pid;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    return -1;
  }
};

TEST_F(Namespace, O22_a_stranger_that_was_given_the_jobs_number_is_never_signalled) {
  if (!have_namespaces()) GTEST_SKIP() << "pid namespaces cannot be made here";
  if (delegated(false)) return;
  for (const bool stop_first : {false, true}) {
    const JobId job = run(argv_order({"/bin/sleep", "600"}));
    wait_running(job);
    const int main = pid_in(job, "main_pid");
    const int shim = pid_in(job, "shim_pid");
    close_channel();
    kill(shim, SIGKILL);
    kill(main, SIGKILL);
    waitpid(shim, nullptr, 0);  // the channel that would have reaped it is gone
    ASSERT_TRUE(eventually([&] { return kill(main, 0) != 0; }));
    const pid_t stranger =
        stranger_with(main, static_cast<std::uint64_t>(pid_in(job, "main_start")));
    ASSERT_EQ(stranger, main);
    open_channel();
    if (!stop_first) look(job);
    stop(job);
    const core::JobFacts facts =
        wait_for(job, [](const Facts& f) { return f.supervision == Supervision::lost; });
    EXPECT_EQ(facts.exit->kind, ExitKind::unknown);
    EXPECT_EQ(facts.proof, Proof::unproven);
    EXPECT_EQ(waitpid(stranger, nullptr, WNOHANG), 0) << "the stranger must live";
    close_channel();
    kill(stranger, SIGKILL);
    waitpid(stranger, nullptr, 0);
  }
}

// ---- as pid 1 ----------------------------------------------------------------------------------

std::vector<std::string> zombies() {
  std::vector<std::string> found;
  DIR* dir = opendir("/proc");
  while (const dirent* entry = dir != nullptr ? readdir(dir) : nullptr) {
    shim::ProcStat stat;
    const int pid = std::atoi(entry->d_name);
    if (pid > 0 && shim::read_proc_stat(pid, stat) && stat.state == 'Z') {
      found.push_back(entry->d_name + std::string(" ") + stat.comm);
    }
  }
  if (dir != nullptr) closedir(dir);
  return found;
}

TEST_F(Namespace, I9_pid_1_reaps_orphans_and_takes_no_status_from_anybody) {
  if (!have_namespaces()) GTEST_SKIP() << "pid namespaces cannot be made here";
  if (delegated(true)) return;
  ASSERT_EQ(getpid(), 1);
  constexpr int kJobs = 300;
  std::vector<JobId> orphaned;
  std::vector<JobId> plain;
  for (int i = 0; i < kJobs; ++i) {
    LaunchOrder launch = order("(setsid sleep 0.01 &) ; sleep 0.01 & kill -9 $PPID; exit 3");
    launch.drain_grace = Millis(50);
    orphaned.push_back(run(std::move(launch)));
    if (i % 10 == 0) plain.push_back(run("(setsid sleep 0.01 &) ; exit 4"));
  }
  for (const JobId& job : orphaned) {
    const core::JobFacts facts =
        wait_for(job, [](const Facts& f) { return f.supervision == Supervision::lost; });
    // Who reaps knows: here the end is told on every kernel, once the process was adopted in time.
    EXPECT_TRUE(facts.exit->kind == ExitKind::unknown || facts.exit->code == 3);
  }
  for (const JobId& job : plain) EXPECT_EQ(wait_finished(job).exit->code, 4);
  EXPECT_TRUE(eventually([] { return zombies().empty(); })) << zombies().front();
}

// A supervisor reaps whatever its job leaves to it, while the job runs.
TEST_F(Namespace, I14_a_supervisor_leaves_no_zombies) {
  const JobId job =
      run("for i in {1..300}; do (setsid true &) ; done; echo up; read -t 600 <> <(:)");
  wait_output(job, "up");
  const int shim = pid_in(job, "shim_pid");
  EXPECT_TRUE(eventually([&] {
    shim::Members below;
    shim::find_descendants(shim, below);
    for (std::size_t i = 0; i < below.count; ++i) {
      if (below.list[i].state == 'Z' && below.list[i].ppid == shim) return false;
    }
    return below.count > 0;
  }));
  stop(job);
  EXPECT_EQ(wait_finished(job).proof, Proof::subreaper);
}

}  // namespace
}  // namespace waybill::supervise
