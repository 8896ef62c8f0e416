#include "supervise/identity.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "base/sha256.h"
#include "shim/proc.h"

namespace waybill::supervise {

MachineGeneration read_machine_generation() {
  const shim::Generation found = shim::read_generation();
  return MachineGeneration{found.boot_id, found.pidns, found.init_start};
}

GenerationId generation_id(const MachineGeneration& generation) {
  return GenerationId(generation.boot_id + "." + std::to_string(generation.pidns) + "." +
                      std::to_string(generation.init_start));
}

std::string monotonic_clock_id() {
  const std::string boot = shim::read_generation().boot_id;
  if (boot.empty()) return {};
  std::error_code error;  // kernels without time namespaces have none to tell apart
  return boot + " " + std::filesystem::read_symlink("/proc/self/ns/time", error).string();
}

namespace {

constexpr std::size_t kMachineIdLeast = 32;  // "uninitialized" is shorter

// Not the id itself: it is not for others to read.
std::string machine_digest() {
  std::ifstream file("/etc/machine-id");
  std::string id;
  if (!(file >> id) || id.size() < kMachineIdLeast) return {};
  const std::string text = "waybill:" + id;
  Sha256 hash;
  hash.update(text.data(), text.size());
  char hex[65];
  hash.finish_hex(hex);
  return std::string(hex, 32);
}

}  // namespace

core::Node read_node(const std::string& data_dir) {
  core::Node node;
  node.machine = machine_digest();
  struct statx info{};
  if (statx(AT_FDCWD, data_dir.c_str(), 0, STATX_INO | STATX_BTIME, &info) != 0) return node;
  if ((info.stx_mask & STATX_INO) != 0) node.inode = info.stx_ino;
  if ((info.stx_mask & STATX_BTIME) != 0) {
    node.born_ns = std::int64_t{info.stx_btime.tv_sec} * 1'000'000'000 + info.stx_btime.tv_nsec;
  }
  return node;
}

Same compare_process(const ProcessIdentity& process) {
  if (process.pid <= 0) return Same::no;
  shim::ProcStat stat;
  if (shim::read_proc_stat(process.pid, stat)) {
    return stat.start == process.start ? Same::yes : Same::no;
  }
  const bool short_of = shim::is_shortage(errno);
  if (kill(process.pid, 0) == 0) return Same::unknown;
  // Of another user, and hidden from us: not ours, unless it is only that we could not look.
  return errno == EPERM && short_of ? Same::unknown : Same::no;
}

bool runs(const ProcessIdentity& process) {
  shim::ProcStat stat;
  return process.pid > 0 && shim::read_proc_stat(process.pid, stat) &&
         stat.start == process.start && stat.state != 'Z' && stat.state != 'X';
}

bool same_process(const ProcessIdentity& process) { return compare_process(process) == Same::yes; }

}  // namespace waybill::supervise
