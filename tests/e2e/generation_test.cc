// A machine that is restarted or replaced, and a data directory that is copied or brought to
// another machine (SPEC section 8, SUPERVISION's recovery table): with real namespaces, so that a
// boot id, a pid namespace and a machine id really are others.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "e2e/harness.h"
#include "e2e/switch.h"

namespace waybill::e2e {
namespace {

namespace json = boost::json;

constexpr int kRefusedState = 123;

// A program that serves inside a mount and pid namespace of its own, with files put over others.
// When it is killed all of that is gone, like a machine.
class Machine {
 public:
  explicit Machine(const std::string& name) : dir_(temp_.path() + "/" + name) {
    ::mkdir(dir_.c_str(), 0700);
  }
  static bool possible() {
    return run({{"/usr/bin/unshare", "-m", "--pid", "--fork", "--mount-proc", "/bin/true"}})
               .exit_code == 0;
  }
  Machine& put_over(const std::string& path, const std::string& text) {
    const std::string file = dir_ + "/over" + std::to_string(mounts_++);
    std::ofstream(file) << text << "\n";
    script_ += "mount --bind '" + file + "' " + path + " && ";
    return *this;
  }
  // Without a pid namespace of its own what it starts lives on.
  std::string program(bool own_pids = true) {
    const std::string path = dir_ + "/waybill";
    const std::string pids = own_pids ? "--pid --fork --kill-child --mount-proc" : "";
    std::ofstream(path) << "#!/bin/sh\n[ \"$1\" = serve ] || exec '" << waybill_program()
                        << "' \"$@\"\nexec unshare -m " << pids << " sh -c '" << quoted(script_)
                        << "exec \"$0\" \"$@\"' '" << waybill_program() << "' \"$@\"\n";
    ::chmod(path.c_str(), 0755);
    return path;
  }

 private:
  static std::string quoted(const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out;
  }
  TempDir temp_;
  std::string dir_;
  std::string script_;
  int mounts_ = 0;
};

constexpr char kBootId[] = "/proc/sys/kernel/random/boot_id";

Daemon::Options served_by(const std::string& program) {
  Daemon::Options options;
  options.program = program;
  options.arguments = {"--set", "running_per_session=2"};
  return options;
}

TEST(Generation, O09_a_reboot_ends_what_ran_starts_what_waited_and_keeps_what_was_not_heard) {
  if (!Machine::possible()) GTEST_SKIP() << "namespaces cannot be made here";
  TempDir temp;
  Machine first("first");
  Machine second("second");
  first.put_over(kBootId, "11111111-1111-4111-8111-111111111111");
  second.put_over(kBootId, "22222222-2222-4222-8222-222222222222");
  Bell bell(temp.path() + "/bell");
  Switch machine;
  machine.to(first.program());
  Daemon daemon(served_by(machine.program()));
  daemon.act_as_host("s");
  daemon.start();
  const std::string unheard = daemon.accept("exit 7");
  daemon.set_env({});
  daemon.cli({"--session", "s", "wait", unheard, "--timeout", "60s"});  // a person's look
  daemon.act_as_host("s");
  const std::string ran = daemon.accept("echo before; " + bell.command("up") + "; sleep 1000");
  ASSERT_TRUE(bell.word());
  daemon.accept("sleep 1000");
  const std::string waits =
      daemon.accept("echo $WAYBILL_JOB >> '" + temp.path() + "/runs'; exit 5");
  EXPECT_EQ(text_at(daemon.show(waits), "status"), "queued");
  daemon.kill_9();
  machine.to(second.program());
  daemon.start();
  const json::value lost = daemon.finished(ran);
  EXPECT_EQ(text_at(lost, "status"), "failed") << json::serialize(lost);
  EXPECT_EQ(text_at(lost, "cause"), "sandbox_replaced");
  EXPECT_EQ(text_at(lost, "exit.kind"), "unknown");
  EXPECT_EQ(text_at(lost, "proof"), "generation");
  EXPECT_EQ(daemon.cli({"logs", ran, "--raw"}).out, "before\n");
  EXPECT_EQ(items_at(lost, "events").size(), 1U);
  const json::value started = daemon.finished(waits);
  EXPECT_EQ(number_at(started, "exit.code"), 5) << json::serialize(started);
  EXPECT_EQ(read_file(temp.path() + "/runs"), waits + "\n");
  EXPECT_NE(text_at(started, "generation"), text_at(lost, "generation"));
  bool heard = false;
  for (const json::value& event : items_at(daemon.json({"inbox", "--timeout", "60s"}), "events")) {
    heard = heard || text_at(event, "id") == unheard + ".failed.1";
  }
  EXPECT_TRUE(heard) << "what nobody had heard before the reboot is heard after it";
  EXPECT_EQ(daemon.cli({"stop", ran}).exit_code, 0);
}

TEST(Generation, I12_a_copied_data_directory_touches_nothing_of_the_first) {
  TempDir temp;
  Daemon first;
  first.act_as_host("s");
  first.start();
  HeldJob held(first);
  const std::string copy = temp.path() + "/copy";
  ASSERT_EQ(run({{"/bin/cp", "-a", first.data_dir(), copy}}).exit_code, 0);
  {
    Daemon::Options options;
    options.data_dir = copy;
    Daemon second(options);
    second.act_as_host("s");
    second.start();
    const Output refused = second.cli({"run", "--", "true"});
    EXPECT_EQ(refused.exit_code, kRefusedState) << refused.describe();
    EXPECT_NE(refused.err.find("[owner_unrecoverable]"), std::string::npos) << refused.err;
    EXPECT_EQ(second.cli({"stop", held.id()}).exit_code, kRefusedState);
    EXPECT_EQ(text_at(second.show(held.id()), "status"), "running");
    const json::value owners = second.json({"owners"});
    EXPECT_EQ(text_at(owners, "owners.0.kind"), "owner_unrecoverable") << json::serialize(owners);
    EXPECT_EQ(text_at(owners, "owners.0.jobs.0"), held.id());
    const Output doctor = second.cli({"doctor"});
    EXPECT_EQ(doctor.exit_code, 1);
    EXPECT_NE(doctor.out.find("waybill owners"), std::string::npos) << doctor.out;
    EXPECT_EQ(second.cli({"owners", "release", "s"}).exit_code, 120);
    // Whoever is not concerned works on.
    EXPECT_EQ(second.cli({"--session", "t", "run", "--wait", "--", "exit 6"}).exit_code, 6);
    const Output released =
        second.cli({"--json", "owners", "release", "s", "--reason", "a copy for a look"});
    ASSERT_EQ(released.exit_code, 0) << released.describe();
    EXPECT_EQ(text_at(released.json(), "jobs.0.status"), "failed");
    EXPECT_EQ(text_at(released.json(), "jobs.0.proof"), "unproven");
    EXPECT_EQ(second.cli({"run", "--wait", "--", "exit 8"}).exit_code, 8);
    EXPECT_EQ(text_at(first.show(held.id()), "status"), "running");
    second.terminate();
  }
  held.end();
  EXPECT_EQ(number_at(first.finished(held.id()), "exit.code"), 3);
}

TEST(Generation, I12_another_machine_keeps_what_it_cannot_attach) {
  if (!Machine::possible() || read_file("/etc/machine-id").size() < 32) {
    GTEST_SKIP() << "there is no machine id to put another over, or no namespace to do it in";
  }
  TempDir temp;
  Machine here("here");
  Machine there("there");
  there.put_over("/etc/machine-id", "0123456789abcdef0123456789abcdef");
  Switch machine;
  machine.to(here.program());
  Daemon daemon(served_by(machine.program()));
  daemon.act_as_host("s");
  daemon.start();
  const std::string job = daemon.accept("sleep 1000");
  daemon.kill_9();
  machine.to(there.program());
  daemon.start();
  EXPECT_EQ(daemon.cli({"run", "--", "true"}).exit_code, kRefusedState);
  EXPECT_EQ(text_at(daemon.show(job), "status"), "running");
  EXPECT_EQ(daemon.cli({"owners", "release", "s", "--reason", "moved"}).exit_code, 0);
  EXPECT_EQ(text_at(daemon.show(job), "cause"), "operator");
}

}  // namespace
}  // namespace waybill::e2e
