#include "cli/resume.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstdlib>

#include "edge/json.h"

namespace waybill::cli {
namespace {

namespace json = boost::json;

constexpr std::string_view kWakeVariable = "WAYBILL_WAKE";

enum class Takes { nothing, one, many };
struct Flag {
  std::string_view name;
  Takes takes = Takes::nothing;
};

// What configures a client and gives it no more rights than its settings do.
constexpr std::array<Flag, 14> kClaudeFlags{{{"--settings", Takes::one},
                                             {"--setting-sources", Takes::one},
                                             {"--mcp-config", Takes::many},
                                             {"--strict-mcp-config", Takes::nothing},
                                             {"--model", Takes::one},
                                             {"--fallback-model", Takes::one},
                                             {"--add-dir", Takes::many},
                                             {"--allowedTools", Takes::many},
                                             {"--allowed-tools", Takes::many},
                                             {"--disallowedTools", Takes::many},
                                             {"--disallowed-tools", Takes::many},
                                             {"--append-system-prompt", Takes::one},
                                             {"--tools", Takes::many},
                                             {"--plugin-dir", Takes::many}}};
constexpr std::array<Flag, 7> kCodexFlags{{{"-m", Takes::one},
                                           {"--model", Takes::one},
                                           {"-p", Takes::one},
                                           {"--profile", Takes::one},
                                           {"--enable", Takes::one},
                                           {"--disable", Takes::one},
                                           {"--skip-git-repo-check", Takes::nothing}}};

template <std::size_t N>
std::vector<std::string> kept(const std::array<Flag, N>& flags,
                              const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    const auto flag =
        std::find_if(flags.begin(), flags.end(), [&](const Flag& one) { return one.name == name; });
    if (flag == flags.end()) continue;
    out.push_back(words[i]);
    if (name.size() != words[i].size()) continue;  // its value came with it
    std::size_t most = flag->takes == Takes::nothing ? 0 : flag->takes == Takes::one ? 1 : SIZE_MAX;
    while (most-- > 0 && i + 1 < words.size() && !words[i + 1].starts_with('-')) {
      out.push_back(words[++i]);
    }
  }
  return out;
}

// Flags that may widen or narrow what a client may do are kept where they narrow it: what is
// started unattended has no more rights than what was closed.
struct Narrowing {
  std::string_view flag;
  std::string_view value;
};
constexpr std::array<Narrowing, 2> kClaudeNarrowing{
    {{"--permission-mode", "plan"}, {"--permission-mode", "default"}}};
constexpr std::array<Narrowing, 4> kCodexNarrowing{{{"-s", "read-only"},
                                                    {"-s", "workspace-write"},
                                                    {"--sandbox", "read-only"},
                                                    {"--sandbox", "workspace-write"}}};

template <std::size_t N>
std::vector<std::string> narrowing(const std::array<Narrowing, N>& known,
                                   const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (std::size_t i = 1; i < words.size(); ++i) {
    for (const Narrowing& one : known) {
      const std::string flag(one.flag);
      const std::string value(one.value);
      const bool apart = words[i] == flag && i + 1 < words.size() && words[i + 1] == value;
      if (apart || words[i] == flag + "=" + value) {
        out.push_back(flag);
        out.push_back(value);
      }
    }
  }
  return out;
}

// An interpreter runs the client: the script comes along.
bool is_interpreter(const std::string& program) {
  const std::string name = program.substr(program.rfind('/') + 1);
  return name == "node" || name == "bun" || name == "deno" || name.starts_with("python");
}

// What the client's own environment was, less what marks a process as somebody's child.
std::string environment_block_of(const HostProcess& host) {
  constexpr std::array<std::string_view, 6> kMarks{
      "CLAUDECODE=",  "CLAUDE_CODE_SESSION_ID=", "WAYBILL_SESSION=", "WAYBILL_TURN=",
      "WAYBILL_JOB=", "WAYBILL_HOST_KEY="};
  std::string block;
  for (const std::string& entry : environment_of(host.pid)) {
    const bool marked = std::any_of(kMarks.begin(), kMarks.end(),
                                    [&](std::string_view mark) { return entry.starts_with(mark); });
    if (entry.find('=') == std::string::npos || entry.front() == '=' || marked) continue;
    block += entry;
    block.push_back('\0');
  }
  block += std::string(kWakeVariable) + "=1";
  block.push_back('\0');
  return block;
}

std::string directory_for(edge::HookClient client, const edge::HookInput& input) {
  const char* project = std::getenv("CLAUDE_PROJECT_DIR");
  if (client == edge::HookClient::claude && project != nullptr && *project == '/') return project;
  return input.cwd;
}

void append(std::vector<std::string>& to, std::vector<std::string> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

std::vector<std::string> resume_command(edge::HookClient client, const std::string& session,
                                        const std::string& program,
                                        const std::vector<std::string>& command_line) {
  if (program.empty() || program.front() != '/') return {};
  // The job that starts it has names of its own in its environment, which are not the session's.
  std::vector<std::string> out{"/usr/bin/env", "-u", "WAYBILL_SESSION", "-u",
                               "WAYBILL_TURN", "-u", "WAYBILL_JOB",     program};
  if (is_interpreter(program)) {
    // The script; an interpreter's own options are not understood here.
    if (command_line.size() < 2 || command_line[1].starts_with('-')) return {};
    out.push_back(command_line[1]);
  }
  switch (client) {
    case edge::HookClient::claude:
      append(out, {"-p", edge::wake_prompt(), "--resume", session});
      append(out, kept(kClaudeFlags, command_line));
      append(out, narrowing(kClaudeNarrowing, command_line));
      break;
    case edge::HookClient::codex:
      append(out, {"exec"});
      append(out, kept(kCodexFlags, command_line));
      append(out, narrowing(kCodexNarrowing, command_line));
      append(out, {"resume", session, edge::wake_prompt()});
      break;
  }
  return out;
}

void add_resume(json::object& params, edge::HookClient client, const edge::HookInput& input,
                const HostProcess& host) {
  const std::vector<std::string> argv =
      resume_command(client, input.session, program_of(host.pid), command_line_of(host.pid));
  const std::string cwd = directory_for(client, input);
  if (argv.empty() || cwd.empty() || cwd.front() != '/') return;
  json::array words;
  for (const std::string& word : argv) {
    if (!edge::is_valid_utf8(word)) return;
    words.push_back(json::value(word));
  }
  params["resume_argv"] = std::move(words);
  params["resume_cwd"] = cwd;
  params["resume_env_base64"] = edge::to_base64(environment_block_of(host));
}

bool started_by_wake() { return std::getenv(std::string(kWakeVariable).c_str()) != nullptr; }

}  // namespace waybill::cli
