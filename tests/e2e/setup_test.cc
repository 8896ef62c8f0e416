// `waybill setup` on configuration files of somebody else, in a home directory of the test's own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kEvents[] = {"SessionStart", "UserPromptSubmit", "PreToolUse",
                                   "PostToolUse",  "Notification",     "Stop",
                                   "SessionEnd"};

class SetupTest : public ::testing::Test {
 protected:
  SetupTest() { fs::create_directory(home()); }

  std::string home() const { return temp.path() + "/home"; }
  std::string settings() const { return home() + "/.claude/settings.json"; }
  std::string servers() const { return home() + "/.claude.json"; }
  std::string codex_hooks() const { return home() + "/.codex/hooks.json"; }
  std::string codex_config() const { return home() + "/.codex/config.toml"; }

  Launch command(std::vector<std::string> arguments, std::vector<std::string> more = {}) const {
    Launch out;
    out.argv = {program.empty() ? waybill_program() : program};
    out.argv.insert(out.argv.end(), arguments.begin(), arguments.end());
    out.env = {"HOME=" + home(), "PATH=" + temp.path() + "/bin"};
    out.env.insert(out.env.end(), more.begin(), more.end());
    out.unset = {"CLAUDE_CONFIG_DIR", "CODEX_HOME"};
    return out;
  }
  Output call(std::vector<std::string> arguments, std::vector<std::string> more = {}) const {
    return run(command(std::move(arguments), std::move(more)));
  }
  Output setup(const std::string& client, std::vector<std::string> flags = {},
               std::vector<std::string> more = {}) const {
    flags.insert(flags.begin(), {"setup", client});
    const Output out = call(std::move(flags), std::move(more));
    EXPECT_EQ(out.exit_code, 0) << out.describe();
    return out;
  }
  void refused(const std::string& client, const std::string& code, int exit_code = 121) const {
    const Output out = call({"setup", client, "--apply"});
    EXPECT_EQ(out.exit_code, exit_code) << out.describe();
    EXPECT_THAT(out.err, HasSubstr("[" + code + "]"));
    last_error = out.err;
  }

  static void put(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }
  static json::value parsed(const std::string& path) { return json::parse(read_file(path)); }

  TempDir temp;
  std::string program;
  mutable std::string last_error;
};

TEST_F(SetupTest, ShowsFirstAndChangesNothing) {
  const Output out = setup("claude");
  EXPECT_THAT(out.out, HasSubstr(settings() + ": create"));
  EXPECT_THAT(out.out, HasSubstr("hook claude Stop"));
  EXPECT_THAT(out.out, HasSubstr("--apply"));
  EXPECT_FALSE(fs::exists(home() + "/.claude"));
  EXPECT_FALSE(fs::exists(servers()));
}

TEST_F(SetupTest, WhatClaudeGets) {
  setup("claude", {"--apply"});
  const json::value hooks = at(parsed(settings()), "hooks");
  EXPECT_EQ(hooks.as_object().size(), std::size(kEvents));
  for (const std::string event : kEvents) {
    EXPECT_EQ(text_at(hooks, event + ".0.hooks.0.command"),
              waybill_program() + " hook claude " + event);
    EXPECT_EQ(number_at(hooks, event + ".0.hooks.0.timeout"), 20);
  }
  EXPECT_EQ(text_at(hooks, "PreToolUse.0.matcher"), "mcp__waybill__.*");
  EXPECT_EQ(text_at(hooks, "PostToolUse.0.matcher"), "*");
  EXPECT_EQ(text_at(hooks, "Notification.0.matcher"), "idle_prompt");
  for (const std::string event : {"SessionStart", "Stop"}) {
    EXPECT_EQ(text_at(hooks, event + ".0.hooks.1.command"),
              waybill_program() + " hook claude Wake");
    EXPECT_EQ(at(hooks, event + ".0.hooks.1.asyncRewake"), true);
    EXPECT_EQ(number_at(hooks, event + ".0.hooks.1.timeout"), 604800);
  }
  EXPECT_EQ(json::serialize(parsed(servers())),
            R"({"mcpServers":{"waybill":{"type":"stdio","command":")" + waybill_program() +
                R"(","args":["mcp"],"env":{}}}})");
  EXPECT_EQ(mode_of(servers()), 0600U);
}

TEST_F(SetupTest, WhatCodexGets) {
  setup("codex", {"--apply"});
  EXPECT_EQ(read_file(codex_config()), "[mcp_servers.waybill]\ncommand = \"" + waybill_program() +
                                           "\"\nargs = [\"mcp\"]\ntool_timeout_sec = 660\n"
                                           "startup_timeout_sec = 30\n");
  const json::value hooks = at(parsed(codex_hooks()), "hooks");
  EXPECT_EQ(hooks.as_object().size(), 5U);
  EXPECT_EQ(text_at(hooks, "PostToolUse.0.matcher"), ".*");
  EXPECT_EQ(text_at(hooks, "Stop.0.hooks.0.command"), waybill_program() + " hook codex Stop");
  EXPECT_EQ(items_at(hooks, "SessionStart.0.hooks").size(), 1U);
  setup("codex", {"--undo"});
  EXPECT_FALSE(fs::exists(codex_config()));
  EXPECT_FALSE(fs::exists(codex_hooks()));
}

TEST_F(SetupTest, UndoGivesTheBytesBack) {
  const std::string nasty[] = {
      "{}",
      "{ }\n",
      "{\"a\":1}",
      "{\n  \"hooks\": {}\n}\n",
      "{\"hooks\":{\"Stop\":[],\"Other\":[ ]},\"mcpServers\":{\r\n}}",
      "\xEF\xBB\xBF{\r\n\t\"n\": 1.50e+3,\r\n\t\"a\": 1, \"a\": 2\r\n}",
      "{\n    \"hooks\": {\n        \"Stop\": [\n            {\"hooks\": [{\"type\": \"command\", "
      "\"command\": \"make test\"}]}\n        ]\n    },\n    \"mcpServers\": {\"x\": {\"command\": "
      "\"y\"}}\n}",
      "{\"h\\u006foks\":{\"Stop\":[{\"hooks\":[]},7,null,{\"hooks\":\"x\"}]},\"s\":\"\\ud800\"}"
      "\n\n",
      "  {\"mcpServers\":{\"a\":{}}, \"raw\":\"\xFF\xC3\xA9\" }  "};
  for (const std::string& text : nasty) {
    put(settings(), text);
    put(servers(), text);
    put(codex_hooks(), text);
    setup("claude", {"--apply"});
    EXPECT_THAT(read_file(settings()), HasSubstr("hook claude Wake"));
    setup("claude", {"--apply", "--resume-when-closed"});
    setup("claude", {"--undo"});
    setup("codex", {"--apply"});
    EXPECT_THAT(read_file(codex_hooks()), HasSubstr("hook codex Stop"));
    setup("codex", {"--undo"});
    for (const std::string& path : {settings(), servers(), codex_hooks()}) {
      EXPECT_EQ(read_file(path), text) << path;
    }
  }
}

TEST_F(SetupTest, UndoGivesTheBytesOfTomlBack) {
  for (const std::string text :
       {"", "\n", "model = 'x'", "model = 'x'\n\n", "# c\r\n[mcp_servers.a]\r\ncommand = 'b'\r\n",
        "s = '''\n[mcp_servers.waybill]\n'''\n[[list]]\na = [\n [1]\n]"}) {
    put(codex_config(), text);
    setup("codex", {"--apply"});
    setup("codex", {"--apply", "--data", "/d"});
    EXPECT_THAT(read_file(codex_config()), HasSubstr("\"--data\", \"/d\""));
    setup("codex", {"--undo"});
    EXPECT_EQ(read_file(codex_config()), text);
  }
}

TEST_F(SetupTest, TwiceIsOnceAndUndoneTwiceToo) {
  for (const std::string client : {"claude", "codex"}) {
    setup(client, {"--apply"});
    const std::string before = read_file(settings()) + read_file(codex_hooks());
    EXPECT_THAT(setup(client, {"--apply"}).out, HasSubstr("Nothing to do."));
    EXPECT_EQ(read_file(settings()) + read_file(codex_hooks()), before);
    EXPECT_THAT(setup(client, {"--undo"}).out, HasSubstr("Undone."));
    EXPECT_THAT(setup(client, {"--undo"}).out, HasSubstr("Nothing to do."));
  }
}

TEST_F(SetupTest, AMovedProgramIsChangedInPlace) {
  put(settings(),
      R"({"hooks":{"Stop":[{"hooks":[{"type":"command","command":"'/old place/waybill' hook claude Stop"}]},{"mine":1}],)"
      R"("Gone":[{"hooks":[{"type":"command","command":"/x/waybill hook claude Gone"}]}],)"
      R"("SessionEnd":[{"hooks":[{"command":"bell"},{"command":"/x/waybill hook claude SessionEnd"}]}]}})");
  put(servers(),
      R"({"mcpServers":{"waybill":{"command":"/old place/waybill","args":["mcp"],"env":{"K":"v"}},"z":{}}})");
  put(codex_config(),
      "[mcp_servers.waybill]\ncommand = '/x/waybill' # here\nenabled = false\n\n[other]\nk = 1\n");
  setup("claude", {"--apply"});
  const json::value hooks = at(parsed(settings()), "hooks");
  EXPECT_EQ(text_at(hooks, "Stop.0.hooks.0.command"), waybill_program() + " hook claude Stop");
  EXPECT_EQ(number_at(hooks, "Stop.1.mine"), 1);
  EXPECT_FALSE(hooks.as_object().contains("Gone"));
  EXPECT_EQ(items_at(hooks, "SessionEnd.0.hooks").size(), 1U);
  EXPECT_EQ(text_at(hooks, "SessionEnd.1.hooks.0.command"),
            waybill_program() + " hook claude SessionEnd");
  EXPECT_EQ(read_file(servers()), R"({"mcpServers":{"waybill":{"command":")" + waybill_program() +
                                      R"(","args":["mcp"],"env":{"K":"v"}},"z":{}}})");
  setup("codex", {"--apply"});
  EXPECT_EQ(read_file(codex_config()),
            "[mcp_servers.waybill]\ncommand = \"" + waybill_program() +
                "\" # here\nenabled = false\nargs = [\"mcp\"]\ntool_timeout_sec = 660\n"
                "startup_timeout_sec = 30\n\n[other]\nk = 1\n");
}

TEST_F(SetupTest, AProgramInAPlaceThatNeedsQuotes) {
  const std::string place = temp.path() + "/it's \"here\"";
  fs::create_directory(place);
  program = place + "/waybill";
  fs::copy_file(waybill_program(), program);
  setup("claude", {"--apply"});
  const json::value hooks = at(parsed(settings()), "hooks");
  const std::string shell_text = text_at(hooks, "Stop.0.hooks.0.command");
  Launch echo;
  echo.argv = {"/bin/sh", "-c", "printf '%s\\n' " + shell_text};
  EXPECT_EQ(run(echo).out, program + "\nhook\nclaude\nStop\n");
  EXPECT_EQ(text_at(parsed(servers()), "mcpServers.waybill.command"), program);
  EXPECT_THAT(setup("claude", {"--apply"}).out, HasSubstr("Nothing to do."));
  setup("codex", {"--apply"});
  EXPECT_THAT(setup("codex", {"--apply"}).out, HasSubstr("Nothing to do."));
  setup("codex", {"--undo"});
  setup("claude", {"--undo"});
  EXPECT_FALSE(fs::exists(settings()));
}

TEST_F(SetupTest, TheDataDirectoryIsCarriedWhenItWasNamed) {
  setup("claude", {"--apply", "--data", "/d e"});
  EXPECT_EQ(text_at(parsed(settings()), "hooks.Stop.0.hooks.0.command"),
            waybill_program() + " hook claude Stop --data '/d e'");
  setup("claude", {"--apply", "--resume-when-closed"}, {"WAYBILL_DATA=/x"});
  EXPECT_EQ(text_at(parsed(settings()), "hooks.SessionStart.0.hooks.0.command"),
            waybill_program() + " hook claude SessionStart --data /x --resume-when-closed");
  EXPECT_EQ(text_at(parsed(servers()), "mcpServers.waybill.args.2"), "/x");
  setup("claude", {"--apply"});
  EXPECT_THAT(read_file(settings()) + read_file(servers()), Not(HasSubstr("--")));
}

TEST_F(SetupTest, WhatDoesNotParseIsRefusedWithItsPlace) {
  put(settings(), "{\n  \"hooks\": {},\n}\n");
  refused("claude", "bad_request", 120);
  EXPECT_THAT(last_error, HasSubstr(settings() + ":3:1"));
  EXPECT_FALSE(fs::exists(servers()));
  put(settings(), "{}");
  put(servers(), "{\"mcpServers\":[]}");
  refused("claude", "bad_request", 120);
  EXPECT_THAT(last_error, HasSubstr(servers() + ":1:15"));
  EXPECT_EQ(read_file(settings()), "{}");
  put(codex_config(), "a = 1\nb = = 2\n");
  refused("codex", "bad_request", 120);
  EXPECT_THAT(last_error, HasSubstr(codex_config() + ":2:"));
  EXPECT_FALSE(fs::exists(codex_hooks()));
}

TEST_F(SetupTest, AServerOfSomebodyElseKeepsItsName) {
  const std::string foreign = R"({"mcpServers":{"waybill":{"command":"npx","args":["other"]}}})";
  put(servers(), foreign);
  refused("claude", "conflict");
  EXPECT_FALSE(fs::exists(settings()));
  setup("claude", {"--undo"});
  EXPECT_EQ(read_file(servers()), foreign);
  for (const std::string text :
       {"[mcp_servers.waybill]\nurl = 'https://example.com'\n",
        "[mcp_servers]\nwaybill = { command = 'npx' }\n", "mcp_servers.waybill.enabled = true\n"}) {
    put(codex_config(), text);
    refused("codex", "conflict");
    setup("codex", {"--undo"});
    EXPECT_EQ(read_file(codex_config()), text);
  }
}

// ~/.claude.json cannot be made in the home directory, though settings.json could be changed.
TEST_F(SetupTest, NothingIsHalfDone) {
  put(settings(), "{}");
  Launch launch;
  if (::geteuid() == 0) {  // nothing stops root: somebody else calls, in root's home directory
    constexpr uid_t kNobody = 65534;
    fs::permissions(temp.path(), fs::perms::all);
    ASSERT_EQ(::chown((home() + "/.claude").c_str(), kNobody, kNobody), 0);
    ASSERT_EQ(::chown(settings().c_str(), kNobody, kNobody), 0);
    program = temp.path() + "/waybill";  // where everybody may run it
    fs::copy_file(waybill_program(), program);
    launch = command({"setup", "claude", "--apply"});
    launch.uid = kNobody;
    launch.cwd = "/";
  } else {
    ASSERT_EQ(::chmod(home().c_str(), 0555), 0);
    launch = command({"setup", "claude", "--apply"});
  }
  const Output out = run(launch);
  ASSERT_EQ(::chmod(home().c_str(), 0755), 0);
  EXPECT_EQ(out.exit_code, 121) << out.describe();
  EXPECT_THAT(out.err, HasSubstr("[forbidden]"));
  EXPECT_EQ(read_file(settings()), "{}");
  const fs::directory_iterator files(home() + "/.claude");
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST_F(SetupTest, LinksModesAndOwnersStay) {
  const std::string real = temp.path() + "/dotfiles.json";
  put(real, "{\n\t\"a\": 1\n}");
  ASSERT_EQ(::chmod(real.c_str(), 0640), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(real.c_str(), 1234, 4321), 0);
  }
  fs::create_directories(home() + "/.claude");
  fs::create_symlink(real, settings());
  setup("claude", {"--apply"});
  EXPECT_TRUE(fs::is_symlink(settings()));
  EXPECT_THAT(read_file(real), HasSubstr("hook claude Stop"));
  EXPECT_EQ(mode_of(real), 0640U);
  if (::geteuid() == 0) {
    struct stat info{};
    ASSERT_EQ(::stat(real.c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, 1234U);
    EXPECT_EQ(info.st_gid, 4321U);
  }
  setup("claude", {"--undo"});
  EXPECT_EQ(read_file(real), "{\n\t\"a\": 1\n}");
  fs::remove(real);
  refused("claude", "bad_request", 120);  // a link to nothing
}

TEST_F(SetupTest, TheClientsVariablesAreFollowed) {
  const std::string other = temp.path() + "/other";
  const std::vector<std::string> variables{"CLAUDE_CONFIG_DIR=" + other, "CODEX_HOME=" + other};
  setup("claude", {"--apply"}, variables);
  setup("codex", {"--apply"}, variables);
  for (const std::string name : {"settings.json", ".claude.json", "hooks.json", "config.toml"}) {
    EXPECT_TRUE(fs::exists(other + "/" + name)) << name;
  }
  EXPECT_TRUE(fs::is_empty(home()));
}

TEST_F(SetupTest, Json) {
  const json::value shown = setup("claude", {"--json"}).json();
  EXPECT_EQ(text_at(shown, "client"), "claude");
  EXPECT_EQ(at(shown, "found"), false);
  EXPECT_TRUE(at(shown, "version").is_null());
  EXPECT_EQ(at(shown, "applied"), false);
  EXPECT_EQ(text_at(shown, "files.0.action"), "create");
  EXPECT_TRUE(at(shown, "files.0.before_sha256").is_null());
  const json::value applied = setup("claude", {"--json", "--apply"}).json();
  EXPECT_EQ(at(applied, "applied"), true);
  EXPECT_EQ(at(applied, "files"), at(shown, "files"));
  const json::value again = setup("claude", {"--json", "--apply"}).json();
  EXPECT_EQ(text_at(again, "files.1.action"), "none");
  EXPECT_EQ(text_at(again, "files.1.diff"), "");
  EXPECT_EQ(at(again, "files.1.before_sha256"), at(applied, "files.1.after_sha256"));
  const json::value undone = setup("claude", {"--json", "--undo"}).json();
  EXPECT_EQ(text_at(undone, "files.1.action"), "remove");
  EXPECT_TRUE(at(undone, "files.1.after_sha256").is_null());
}

TEST_F(SetupTest, SecretsBesideOursAreNotShown) {
  put(settings(), "{\n  \"env\": {\"KEY\": \"sk-secret\"}\n}\n");
  put(servers(), "{\"token\":\"sk-secret\"}");
  EXPECT_THAT(setup("claude").out, Not(HasSubstr("sk-secret")));
  EXPECT_THAT(setup("claude", {"--json", "--apply"}).out, Not(HasSubstr("sk-secret")));
  EXPECT_THAT(setup("claude", {"--undo"}).out, Not(HasSubstr("sk-secret")));
}

TEST_F(SetupTest, UsageErrors) {
  for (const std::vector<std::string>& wrong : std::initializer_list<std::vector<std::string>>{
           {"setup"},
           {"setup", "vim"},
           {"setup", "claude", "codex"},
           {"setup", "claude", "--apply", "--undo"},
           {"setup", "claude", "--undo", "--resume-when-closed"}}) {
    EXPECT_EQ(call(wrong).exit_code, 120);
  }
  Launch homeless = command({"setup", "codex", "--data", "/d"});
  homeless.env = {"HOME="};
  EXPECT_EQ(run(homeless).exit_code, 120);
}

// ---- doctor ------------------------------------------------------------------------------------

std::string messages_of(const json::value& answer, const std::string& subject) {
  std::string out;
  for (const json::value& finding : items_at(answer, "findings")) {
    if (text_at(finding, "subject") != subject) continue;
    out += text_at(finding, "level") + ": " + text_at(finding, "message") + "\n";
  }
  return out;
}

class SetupDoctorTest : public SetupTest {
 protected:
  SetupDoctorTest() {
    fs::create_directory(temp.path() + "/bin");
    daemon.start();
  }
  void install(const std::string& name, const std::string& script) const {
    const std::string path = temp.path() + "/bin/" + name;
    put(path, "#!/bin/sh\n" + script + "\n");
    fs::permissions(path, fs::perms::owner_all);
  }
  json::value doctor() {
    const Output out = call({"doctor", "--json", "--no-autostart", "--data", daemon.data_dir()});
    return out.json();
  }

  Daemon daemon;
};

TEST_F(SetupDoctorTest, SaysHowEachClientIsSetUp) {
  json::value answer = doctor();
  EXPECT_EQ(messages_of(answer, "client claude"), "ok: not installed\n");
  EXPECT_EQ(messages_of(answer, "client codex"), "ok: not installed\n");
  EXPECT_THAT(messages_of(answer, "sessions"), HasSubstr("can be woken now: "));
  EXPECT_EQ(at(answer, "clients.0.found"), false);
  EXPECT_EQ(at(answer, "clients.0.wired"), false);
  install("claude", "echo '9.8.7 (Claude Code)'");
  install("codex", "echo codex-cli 0.1.2");
  answer = doctor();
  EXPECT_THAT(messages_of(answer, "client claude"), HasSubstr("not set up; run: waybill setup"));
  EXPECT_EQ(text_at(answer, "clients.0.version"), "9.8.7");
  EXPECT_EQ(text_at(answer, "clients.1.version"), "0.1.2");
  setup("claude", {"--apply"});
  setup("codex", {"--apply"});
  answer = doctor();
  EXPECT_EQ(at(answer, "clients.0.wired"), true);
  EXPECT_EQ(text_at(answer, "clients.0.program"), waybill_program());
  EXPECT_THAT(text_at(answer, "clients.0.on_completion"), HasSubstr("idle terminal: woken"));
  EXPECT_THAT(messages_of(answer, "client claude"), HasSubstr("at the next resume"));
  EXPECT_EQ(at(answer, "clients.1.wired"), true);
  EXPECT_THAT(messages_of(answer, "client codex"), HasSubstr("not trusted yet"));
}

TEST_F(SetupDoctorTest, SaysWhatIsWrongWithASetup) {
  install("claude", "exit 3");
  setup("claude", {"--apply"});
  put(settings(), "{}");
  json::value answer = doctor();
  EXPECT_TRUE(at(answer, "clients.0.version").is_null());
  EXPECT_EQ(at(answer, "clients.0.wired"), false);
  EXPECT_THAT(messages_of(answer, "client claude"), HasSubstr("warning: only a part"));
  put(servers(), R"({"mcpServers":{"waybill":{"command":"/nowhere/waybill"}}})");
  answer = doctor();
  EXPECT_THAT(messages_of(answer, "client claude"), HasSubstr("warning: set up for /nowhere"));
  put(servers(), "{");
  EXPECT_THAT(messages_of(doctor(), "client claude"), HasSubstr("warning: " + servers() + ":1:2"));
  EXPECT_EQ(call({"doctor", "--no-autostart", "--data", daemon.data_dir()}).exit_code,
            daemon.cli({"doctor"}).exit_code);
}

TEST_F(SetupTest, TwoAtOnceBothHaveDoneIt) {
  for (int round = 0; round < 10; ++round) {
    const Output before = setup("claude", {"--undo"});
    ASSERT_EQ(before.exit_code, 0);
    Output one;
    std::thread other([&] { one = setup("claude", {"--apply"}); });
    const Output two = setup("claude", {"--apply"});
    other.join();
    EXPECT_EQ(one.exit_code, 0) << one.describe();
    EXPECT_EQ(two.exit_code, 0) << two.describe();
    EXPECT_EQ(at(parsed(settings()), "hooks").as_object().size(), std::size(kEvents));
  }
}

}  // namespace
}  // namespace waybill::e2e
