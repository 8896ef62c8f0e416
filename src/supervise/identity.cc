#include "supervise/identity.h"

#include <signal.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

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

bool same_process(const ProcessIdentity& process) { return compare_process(process) == Same::yes; }

}  // namespace waybill::supervise
