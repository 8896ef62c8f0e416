#include "cli/codex_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cli/codex_app_server.h"
#include "cli/fake_server.h"

namespace waybill::cli {
namespace {

using ::testing::HasSubstr;

CodexPlace place(std::vector<std::string> command_line, std::vector<std::string> environment) {
  return {"", std::move(command_line), std::move(environment)};
}

TEST(CodexSocket, the_control_socket_below_codex_home_is_where_codex_listens_by_itself) {
  const std::string end = "/.codex/app-server-control/app-server-control.sock";
  EXPECT_EQ(codex_socket_path(place({"codex"}, {"HOME=/h"})), "/h" + end);
  EXPECT_EQ(codex_socket_path(place({"codex"}, {"HOME=/h", "CODEX_HOME=/c"})),
            "/c/app-server-control/app-server-control.sock");
  EXPECT_EQ(codex_socket_path(place({"codex"}, {"HOME=/h", "CODEX_HOME="})), "/h" + end);
  EXPECT_EQ(codex_socket_path(place({"codex"}, {"HOME=/h", "CODEX_HOME=relative"})), "");
  EXPECT_EQ(codex_socket_path(place({"codex"}, {})), "");
}

TEST(CodexSocket, what_the_command_line_says_goes_before_it) {
  const std::vector<std::string> home{"HOME=/h"};
  EXPECT_EQ(codex_socket_path(place({"codex", "app-server", "--listen", "unix:///s"}, home)), "/s");
  EXPECT_EQ(codex_socket_path(place({"codex", "--remote=unix:///r"}, home)), "/r");
  EXPECT_EQ(codex_socket_path(place({"codex", "app-server", "--listen", "unix://"}, home)),
            "/h/.codex/app-server-control/app-server-control.sock");
  EXPECT_EQ(codex_socket_path(place({"codex", "--", "--remote=unix:///r"}, home)),
            "/h/.codex/app-server-control/app-server-control.sock")
      << "a prompt is no flag";
}

TEST(CodexSocket, what_was_configured_goes_before_all) {
  CodexPlace all = place({"codex", "--listen", "unix:///s"}, {"HOME=/h"});
  all.configured = "unix:///c";
  EXPECT_EQ(codex_socket_path(all), "/c");
}

TEST(CodexSocket, nothing_but_a_unix_socket_is_spoken_to) {
  for (const std::string address : {"ws://127.0.0.1:1", "wss://example.org", "stdio://", "/plain",
                                    "unix://relative", "tcp://1"}) {
    CodexPlace one = place({"codex"}, {"HOME=/h"});
    one.configured = address;
    EXPECT_EQ(codex_socket_path(one), "") << address;
    EXPECT_EQ(codex_socket_path(place({"codex", "--remote", address}, {"HOME=/h"})), "") << address;
  }
}

TEST(CodexSocket, only_a_socket_that_is_there_and_our_own_is_connected_to) {
  TempDir directory;
  const std::string file = directory.path() + "/file";
  std::ofstream(file) << "x";
  const auto why = [](const std::string& path) {
    const auto made = connect_own_socket(path);
    return made ? std::string("connected") : made.error().message;
  };
  EXPECT_THAT(why(file), HasSubstr("no socket"));
  EXPECT_THAT(why(directory.path() + "/none"), HasSubstr("not there"));
  EXPECT_THAT(why("/no/such/directory/s"), HasSubstr("directory"));
  EXPECT_THAT(why("name"), HasSubstr("no path"));
  FakeServer server(directory.path(), [](const std::string&, const json::object&) -> Scripted {
    return {"", false};
  });
  const std::string path = directory.path() + "/waybill.sock";
  EXPECT_EQ(why(path), "connected");
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
    EXPECT_THAT(why(path), HasSubstr("another user"));
  }
}

TEST(CodexSocket, the_right_turn_is_read_from_the_message_when_it_carries_it) {
  EXPECT_EQ(active_turn_of("expected active turn id `a` but found `b-1`"), "b-1");
  EXPECT_EQ(active_turn_of("expected active turn id a but found b"), "b");
  EXPECT_EQ(active_turn_of("expected active turn id `a`"), "");
  EXPECT_EQ(active_turn_of("but found"), "");
}

}  // namespace
}  // namespace waybill::cli
