#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "base/sha256.h"
#include "base/unique_fd.h"
#include "cli/answer.h"
#include "cli/client_config.h"
#include "cli/client_probe.h"
#include "cli/commands.h"
#include "cli/line_diff.h"
#include "cli/output.h"
#include "edge/json.h"

namespace waybill::cli {
namespace {

constexpr std::string_view kTools =
    "An MCP server gives it tools for background jobs; hooks tell Waybill where turns begin and "
    "end.";
constexpr std::string_view kArrival =
    "When a job ends, its result goes into the running turn; an idle terminal session is woken; a "
    "closed one gets it at its next start.";
constexpr std::string_view kArrivalResumed =
    "When a job ends, its result goes into the running turn; an idle terminal session is woken; a "
    "closed one is resumed by Waybill.";
constexpr std::string_view kLimits =
    "No permission, approval or sandbox setting changes. Sessions that run now see this after "
    "their "
    "next start.";
constexpr std::string_view kTrust =
    "Start `codex` once and trust the hooks when it asks; until then results come with the next "
    "waybill tool result, or are pushed through Codex's app-server or queue.";

Result<std::string> own_program() {
  std::array<char, 4096> buffer{};
  const ssize_t length = ::readlink("/proc/self/exe", buffer.data(), buffer.size());
  if (length <= 0 || static_cast<std::size_t>(length) >= buffer.size()) {
    return fail(ErrorCode::unavailable, "Cannot find out where this program lies.");
  }
  std::string path(buffer.data(), static_cast<std::size_t>(length));
  if (path.ends_with(" (deleted)")) {
    return fail(ErrorCode::unavailable,
                "This program was replaced while it ran; run the command again.");
  }
  if (!path.ends_with("/waybill")) {
    return fail(ErrorCode::bad_request,
                "The program must be called `waybill`, so that its entries are found again; this "
                "one is " +
                    path + ".");
  }
  return path;
}

Result<Wiring> wiring_of(const Context& context) {
  Wiring out;
  TRY_ASSIGN(out.program, own_program());
  const char* data = std::getenv("WAYBILL_DATA");
  if (context.parsed.has("--data") || (data != nullptr && *data != '\0')) {
    out.data_dir = context.data_dir;
  }
  out.resume_when_closed = context.parsed.has("--resume-when-closed");
  for (const std::string* path : {&out.program, &out.data_dir}) {
    if (edge::is_valid_utf8(*path)) continue;
    return fail(
        ErrorCode::bad_request,
        "A path that is not valid UTF-8 cannot stand in the client's configuration: " + *path);
  }
  return out;
}

json::value digest_of(const std::optional<std::string>& text) {
  if (!text) return nullptr;
  Sha256 digest;
  digest.update(text->data(), text->size());
  std::array<char, 65> hex{};
  digest.finish_hex(hex.data());
  return json::string(hex.data());
}

json::object file_object(const FileChange& file) {
  return {{"path", edge::valid_utf8(file.path)},
          {"action", action_of(file)},
          {"before_sha256", digest_of(file.before)},
          {"after_sha256", digest_of(file.after)},
          {"diff", edge::valid_utf8(line_diff(file.before, file.after))}};
}

struct Report {
  ClientId client;
  std::optional<FoundClient> found;
  std::vector<FileChange> files;
  bool undo = false;
  bool applied = false;
  bool resume = false;

  bool changes() const {
    for (const FileChange& file : files) {
      if (file.is_change()) return true;
    }
    return false;
  }
};

json::object report_object(const Report& report) {
  json::array files;
  for (const FileChange& file : report.files) files.push_back(file_object(file));
  const bool known = report.found && !report.found->version.empty();
  return {{"client", to_word(report.client)},
          {"found", report.found.has_value()},
          {"version",
           known ? json::value(edge::valid_utf8(report.found->version)) : json::value(nullptr)},
          {"files", std::move(files)},
          {"applied", report.applied}};
}

void print_file(const FileChange& file) {
  print_line(coloured(Colour::bold, safe_line(file.path)) + ": " +
             (file.is_change() ? action_of(file) : "nothing to do"));
  const std::string diff = line_diff(file.before, file.after);
  for (std::size_t at = 0; at < diff.size();) {
    const std::size_t end = diff.find('\n', at);
    const std::string line = safe_line(std::string_view(diff).substr(at, end - at));
    print_line(coloured(line.starts_with('+')   ? Colour::green
                        : line.starts_with('-') ? Colour::red
                                                : Colour::grey,
                        line));
    at = end + 1;
  }
}

void print_meaning(const Report& report) {
  print_line("");
  print_line(kTools);
  print_line(report.resume ? kArrivalResumed : kArrival);
  print_line(kLimits);
  if (report.client == ClientId::codex) print_line(kTrust);
}

void print_report(const Report& report) {
  const std::string name(to_word(report.client));
  for (const FileChange& file : report.files) print_file(file);
  if (!report.undo) print_meaning(report);
  print_line("");
  if (!report.found) print_line(name + " was not found on this machine; the files do not need it.");
  if (!report.changes()) {
    print_line("Nothing to do.");
  } else if (report.applied) {
    print_line(report.undo ? "Undone."
                           : "Done. `waybill setup " + name + " --undo` takes it back.");
  } else {
    print_line("Nothing was changed yet; add --apply to do it.");
  }
}

// One set-up at a time: another's writes would be taken back with one's own. Held until the
// descriptor is closed; a home that cannot be locked is not (the files are still compared before
// each write).
UniqueFd lock_setup() {
  const char* home = std::getenv("HOME");
  UniqueFd fd(::open(home == nullptr ? "/" : home, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  while (fd.valid() && ::flock(fd.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  return fd;
}

}  // namespace

Result<int> setup_command(const Context& context) {
  const Parsed& parsed = context.parsed;
  const std::optional<ClientId> client = client_from_word(parsed.operands.at(0));
  if (!client) {
    return fail(ErrorCode::bad_request,
                "`setup` knows claude and codex, not `" + parsed.operands.at(0) + "`.");
  }
  Report report{*client, std::nullopt, {}};
  report.undo = parsed.has("--undo");
  report.resume = parsed.has("--resume-when-closed");
  if (report.undo && (parsed.has("--apply") || report.resume)) {
    return fail(ErrorCode::bad_request, "--undo stands alone, without --apply and others.");
  }
  const UniqueFd lock = lock_setup();
  if (report.undo) {
    TRY_ASSIGN(report.files, plan_undo(*client));
  } else {
    TRY_ASSIGN(const Wiring wiring, wiring_of(context));
    TRY_ASSIGN(report.files, plan_setup(*client, wiring));
  }
  if (report.undo || parsed.has("--apply")) {
    TRY(write_changes(report.files));
    report.applied = true;
  }
  report.found = find_client(*client);
  if (context.json) {
    print_line(edge::to_text(report_object(report)));
  } else {
    print_report(report);
  }
  TRY(flush_stdout());
  return 0;
}

}  // namespace waybill::cli
