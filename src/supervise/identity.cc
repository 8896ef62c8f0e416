#include "supervise/identity.h"

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

bool same_process(const ProcessIdentity& process) {
  shim::ProcStat stat;
  return process.pid > 0 && shim::read_proc_stat(process.pid, stat) && stat.start == process.start;
}

}  // namespace waybill::supervise
