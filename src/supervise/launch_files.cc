#include "supervise/launch_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "base/crash_point.h"
#include "base/crc32.h"
#include "base/kernel.h"
#include "shim/crash_points.h"
#include "shim/files.h"

namespace waybill::supervise {
namespace {

std::string hex8(std::uint32_t value) {
  char digits[8];
  crc32_hex(value, digits);
  return std::string(digits, 8);
}

// The point at which a test wants the supervisor to die. An ordinary daemon runs without the
// variable, and then nothing in an order can name one.
std::string crash_point_of(const LaunchOrder& order) {
  const char* allowed = std::getenv("WAYBILL_CRASH_SHIM");
  if (allowed == nullptr) return {};
  if (!order.crash_point.empty()) return order.crash_point;
  if (allowed == shim::kNoHoles) return allowed;
  std::string_view point = allowed;
  if (point.starts_with(shim::kPause)) point.remove_prefix(shim::kPause.size());
  const auto known = std::find(std::begin(shim::kCrashPoints), std::end(shim::kCrashPoints), point);
  return known == std::end(shim::kCrashPoints) ? std::string() : std::string(allowed);
}

std::string join_env(const std::vector<std::string>& env) {
  std::string bytes;
  for (const std::string& entry : env) {
    bytes += entry;
    bytes.push_back('\0');
  }
  return bytes;
}

class FieldWriter {
 public:
  void text(std::string_view key, std::string_view value) {
    bytes_.append(key).push_back('=');
    bytes_.append(value).push_back('\0');
  }
  void number(std::string_view key, std::uint64_t value) { text(key, std::to_string(value)); }
  void time(std::string_view key, Millis value) {
    number(key, static_cast<std::uint64_t>(std::max<Millis::rep>(value.count(), 0)));
  }
  std::string finish() && {
    text("crc", hex8(crc32(bytes_.data(), bytes_.size())));
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

// The command as the shell's last arguments, or as a file when the kernel takes no such argument.
void write_program(FieldWriter& fields, const LaunchOrder& order, const std::string& dir) {
  const std::string& first = order.shell.empty() ? order.argv.front() : order.shell;
  fields.text("program", order.wrapper.empty() ? first : order.wrapper.front());
  for (const std::string& word : order.wrapper) fields.text("arg", word);
  if (order.shell.empty()) {
    for (const std::string& arg : order.argv) fields.text("arg", arg);
    return;
  }
  fields.text("arg", order.shell);
  if (needs_command_file(order)) {
    fields.text("arg", dir + "/" + shim::kCommand);
    return;
  }
  fields.text("arg", "-c");
  // Otherwise the shell would take the command for options.
  if (order.command.starts_with('-') || order.command.starts_with('+')) fields.text("arg", "--");
  fields.text("arg", order.command);
}

// Whose it is: read again only when the store has lost the row (found_job.cc).
void write_origin(FieldWriter& fields, const LaunchOrder& order) {
  const Origin& origin = order.origin;
  fields.text("tenant", origin.scope.owner.tenant.str());
  fields.text("session", origin.scope.owner.session.str());
  fields.text("turn", origin.scope.turn ? origin.scope.turn->str() : std::string());
  fields.text("sandbox", origin.scope.sandbox.str());
  fields.text("generation", origin.scope.generation.str());
  fields.text("owner", core::to_word(origin.owner));
  fields.text("wake", core::to_word(origin.wake));
  fields.text("label", origin.label);
  fields.text("key", origin.key);
  fields.text("fingerprint", origin.fingerprint);
  fields.text("incarnation", origin.incarnation);
  fields.time("accepted_ms", origin.accepted_at.time_since_epoch());
  fields.number("wrapper_args", order.wrapper.size());
  fields.text("shell", order.shell.empty() ? "0" : "1");
}

}  // namespace

bool needs_command_file(const LaunchOrder& order) {
  return !order.shell.empty() && order.command.size() >= kWordBytesMax;
}

LaunchFiles make_launch_files(const LaunchOrder& order, const std::string& job_dir_path) {
  LaunchFiles files;
  std::vector<std::string> env = order.env;
  files.hook = make_stage_hook(order, job_dir_path, env);
  files.env = join_env(env);
  FieldWriter fields;
  fields.number("protocol", static_cast<std::uint64_t>(shim::kLaunchProtocol));
  fields.text("job", order.job.str());
  fields.number("node_seq", order.node_seq);
  fields.text("cwd", order.cwd);
  write_program(fields, order, job_dir_path);
  fields.time("grace_ms", order.grace);
  // A deadline of nothing at all is still a deadline; 0 stands for none.
  fields.time("deadline_ms", order.deadline ? std::max(*order.deadline, Millis(1)) : Millis(0));
  fields.number("cap_bytes", order.cap_bytes);
  fields.number("head_bytes", order.head_bytes);
  fields.text("leftovers", core::to_word(order.leftovers));
  fields.text("stdin", core::to_word(order.stdin_policy));
  fields.text("pty", order.pty ? "1" : "0");
  fields.time("leftover_grace_ms", order.leftover_grace);
  fields.time("drain_grace_ms", order.drain_grace);
  fields.time("drain_max_ms", order.drain_max);
  char umask_text[16];
  std::snprintf(umask_text, sizeof umask_text, "%o", order.umask & 0777U);
  fields.text("umask", umask_text);
  fields.number("files", order.files_max);
  fields.text("capture", files.hook.file != nullptr ? "1" : "0");
  fields.text("cgroup", order.cgroup);
  fields.text("crash_point", crash_point_of(order));
  write_origin(fields, order);
  fields.number("env_bytes", files.env.size());
  fields.text("env_crc", hex8(crc32(files.env.data(), files.env.size())));
  files.launch = std::move(fields).finish();
  return files;
}

LaunchFailure check_order(const LaunchOrder& order) {
  const auto has_nul = [](const std::string& text) { return text.find('\0') != std::string::npos; };
  bool nul = has_nul(order.shell) || has_nul(order.command) || has_nul(order.cwd) ||
             has_nul(order.origin.label);
  for (const std::string& arg : order.argv) nul = nul || has_nul(arg);
  for (const std::string& word : order.wrapper) nul = nul || has_nul(word);
  for (const std::string& entry : order.env) nul = nul || has_nul(entry);
  if (nul) return {"A command, argument, folder or variable holds a NUL byte.", EINVAL};
  if (!order.cwd.starts_with('/')) return {"The working folder is not an absolute path.", EINVAL};
  if (order.shell.empty() && (order.argv.empty() || order.argv.front().empty())) {
    return {"There is neither a shell nor a program to run.", EINVAL};
  }
  if (!order.shell.empty() && !order.shell.starts_with('/')) {
    return {"The shell is not an absolute path.", EINVAL};
  }
  return {};
}

LaunchFailure write_launch_files(const LaunchOrder& order, const JobDir& dir) {
  const LaunchFiles files = make_launch_files(order, dir.path());
  if (files.hook.file != nullptr) {
    if (const int error = dir.write(files.hook.file, files.hook.text)) {
      return {"The stage hook cannot be written.", error};
    }
  }
  // Made here, so that its mode is ours and not the command's umask.
  if (files.hook.file != nullptr) {
    if (const int error = dir.write(shim::kStages, "")) {
      return {"The stages file cannot be made.", error};
    }
  }
  if (needs_command_file(order)) {
    if (const int error = dir.write(shim::kCommand, order.command)) {
      return {"The command's file cannot be written.", error};
    }
  }
  if (const int error = dir.write(shim::kLaunchEnv, files.env)) {
    return {"The job's environment cannot be written.", error};
  }
  crash_point("supervise.after_env_file");
  if (const int error = dir.write(shim::kLaunch, files.launch)) {
    return {"The launch file cannot be written.", error};
  }
  return {};
}

}  // namespace waybill::supervise
