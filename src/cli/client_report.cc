#include "cli/client_report.h"

#include <sys/stat.h>
#include <unistd.h>

#include "cli/answer.h"
#include "cli/client_probe.h"
#include "edge/json.h"

namespace waybill::cli {
namespace {

constexpr const char* kOk = "ok";
constexpr const char* kWarning = "warning";
constexpr const char* kProblem = "problem";

// What happens when a job ends.
struct Arrival {
  std::string terminal;
  std::string one_shot;  // "" the same
};

Arrival arrival_at(ClientId client, const Wired& wired) {
  if (!wired.trusted) {
    return {
        "with the next waybill tool result, or pushed through its app-server or queue, until its "
        "hooks "
        "are trusted",
        ""};
  }
  return {std::string("running turn: notice in that turn; idle terminal: woken; closed: ") +
              (wired.resume_when_closed ? "resumed by Waybill"
                                        : "at the next start (or resumed by Waybill, if set up "
                                          "with --resume-when-closed)"),
          client == ClientId::claude ? "`claude -p`: at the next resume" : ""};
}

bool is_program(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

std::string own_program() {
  std::string path(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  path.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return path;
}

struct Rows {
  json::array& findings;
  std::string subject;

  void add(const char* level, const std::string& message) const {
    findings.push_back(json::object{
        {"subject", subject}, {"level", level}, {"message", edge::valid_utf8(message)}});
  }
};

void add_wiring(const Rows& rows, const std::string& name, const Wired& wired) {
  const std::string again = "; run: waybill setup " + name + " --apply";
  if (!is_program(wired.program)) {
    rows.add(kWarning, "set up for " + wired.program + ", which is not a program any more" + again);
  } else if (!wired.complete) {
    rows.add(kWarning, "only a part of the setup is there" + again);
  } else if (wired.program != own_program()) {
    rows.add(kOk, "set up for another program than this one: " + wired.program);
  } else {
    rows.add(kOk, "set up for this program");
  }
}

}  // namespace

void report_client(ClientId client, json::array& clients, json::array& findings) {
  const std::string name(to_word(client));
  const Rows rows{findings, "client " + name};
  const std::optional<FoundClient> found = find_client(client);
  const std::string version = found ? edge::valid_utf8(found->version) : "";
  const Result<Wired> wired = look_at_client(client);
  const bool any = wired && wired->any;
  rows.add(kOk, !found            ? "not installed"
                : version.empty() ? "found at " + found->path + "; it did not tell its version"
                                  : "version " + version + " at " + found->path);
  json::object row{{"client", name},
                   {"found", found.has_value()},
                   {"version", version.empty() ? json::value(nullptr) : json::value(version)},
                   {"wired", any && wired->complete && is_program(wired->program)},
                   {"program", nullptr},
                   {"on_completion", nullptr}};
  if (!wired) {
    rows.add(found ? kWarning : kOk, wired.error().message);
  } else if (any) {
    row["program"] = edge::valid_utf8(wired->program);
    add_wiring(rows, name, *wired);
    const Arrival arrival = arrival_at(client, *wired);
    if (row.at("wired").as_bool()) {
      row["on_completion"] = arrival.terminal;
      if (!wired->trusted) {
        rows.add(kWarning,
                 "its hooks are not trusted yet: start `codex` once and trust them when it asks");
      }
      rows.add(kOk, "when a job ends: " + arrival.terminal);
      if (!arrival.one_shot.empty()) rows.add(kOk, "when a job ends, " + arrival.one_shot);
    }
  } else if (found) {
    rows.add(kOk, "not set up; run: waybill setup " + name);
  }
  clients.push_back(std::move(row));
}

void report_refused(const json::object& status, json::array& findings) {
  const Rows rows{findings, "owners"};
  for (const json::key_value_pair& owner : object_of(status, "poisoned_owners")) {
    const std::string why =
        owner.value().is_string() ? std::string(owner.value().get_string()) : "";
    rows.add(kProblem, std::string(owner.key()) + " is refused: " + why + " See `waybill owners`.");
  }
}

void report_reachable(const json::object& status, json::array& findings) {
  std::string sessions;
  for (const json::value& session : array_of(status, "reachable")) {
    if (!session.is_string()) continue;
    sessions += (sessions.empty() ? "" : ", ") + std::string(session.get_string());
  }
  const Rows rows{findings, "sessions"};
  rows.add(kOk, "can be woken now: " + (sessions.empty() ? "none" : sessions));
}

}  // namespace waybill::cli
