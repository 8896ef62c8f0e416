// By name (`./test upgrade`): a whole earlier version, built from its own sources, is replaced by
// this one while its jobs run. Programs and store are really those of then.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "e2e/harness.h"
#include "e2e/switch.h"

namespace waybill::e2e {
namespace {

namespace json = boost::json;

constexpr int kStateRefused = 123;

std::string kept_program() {
  const char* directory = std::getenv("WAYBILL_KEPT");
  return directory == nullptr ? "" : std::string(directory) + "/waybill";
}

TEST(KeptVersion, O30_twenty_jobs_over_an_upgrade_from_an_earlier_version) {
  constexpr int kJobs = 20;
  ASSERT_FALSE(kept_program().empty()) << "WAYBILL_KEPT names the folder of the earlier version";
  TempDir temp;
  Switch version;
  version.to(kept_program());
  Daemon::Options options;
  options.program = version.program();
  options.arguments = {"--set", "running_per_session=15"};
  Daemon daemon(options);
  daemon.act_as_host("s");
  daemon.start();
  StartLine line(temp.path() + "/line");
  const std::string unheard = daemon.accept("exit 9");
  daemon.cli({"wait", "--any", unheard, "--timeout", "60s"});
  std::vector<std::string> ids;
  for (int i = 0; i < kJobs; ++i) {  // fifteen run, five wait
    ids.push_back(daemon.accept("echo " + std::to_string(i) + " >> '" + temp.path() + "/runs'; " +
                                line.command() + "; echo ok; exit " + std::to_string(i + 1)));
  }
  version.to(waybill_program());  // this version's client, that one's daemon
  EXPECT_EQ(daemon.cli({"list"}).exit_code, 0);
  EXPECT_EQ(text_at(daemon.show(ids[0]), "kind"), "command");
  daemon.kill_9();
  daemon.start();
  EXPECT_TRUE(text_at(daemon.show(ids[0]), "status") == "running");
  version.to(kept_program());  // and the reverse
  EXPECT_EQ(daemon.cli({"show", ids[1]}).exit_code, 0);
  EXPECT_EQ(daemon.cli({"list"}).exit_code, 0);
  version.to(waybill_program());
  line.open();
  std::map<std::string, int> heard;
  while (heard.size() < ids.size()) {
    const Output taken = daemon.cli({"--json", "inbox", "--timeout", "60s"});
    ASSERT_EQ(taken.exit_code, 0) << taken.describe() << heard.size();
    for (const json::value& event : items_at(taken.json(), "events")) {
      ++heard[text_at(event, "id")];
    }
  }
  for (int i = 0; i < kJobs; ++i) {
    const std::string& id = ids[static_cast<std::size_t>(i)];
    const json::value job = daemon.show(id);
    EXPECT_EQ(number_at(job, "exit.code"), i + 1) << json::serialize(job);
    EXPECT_EQ(heard[id + ".failed.1"], 1);
    EXPECT_EQ(endings_of(job).size(), 1U);
    EXPECT_EQ(daemon.cli({"logs", id, "--raw"}).out, "ok\n");
  }
  int runs = 0;
  std::istringstream lines(read_file(temp.path() + "/runs"));
  for (std::string one; lines >> one;) ++runs;
  EXPECT_EQ(runs, kJobs) << "each command ran once";
  // There is no way back, and trying it harms nothing.
  daemon.terminate();
  version.to(kept_program());
  EXPECT_EQ(daemon.serve_and_finish().exit_code, kStateRefused);
  version.to(waybill_program());
  daemon.start();
  EXPECT_EQ(number_at(daemon.show(ids[3]), "exit.code"), 4);
}

}  // namespace
}  // namespace waybill::e2e
