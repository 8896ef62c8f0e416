#pragma once
// Which machine generation this is, and whether a process on record is still that process.
// Identity = boot id, pid namespace, start time of pid 1, pid, start time. A number alone is never
// trusted. Stateless; any thread.

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "core/node.h"

namespace waybill::supervise {

struct MachineGeneration {
  std::string boot_id;
  std::uint64_t pidns = 0;
  std::uint64_t init_start = 0;
  friend bool operator==(const MachineGeneration&, const MachineGeneration&) = default;
};

MachineGeneration read_machine_generation();

// Which run of the monotonic clock this is: the boot, and the time namespace that shifts it. ""
// when that cannot be told.
std::string monotonic_clock_id();

// The opaque id that jobs carry: equal exactly when the generations are.
GenerationId generation_id(const MachineGeneration& generation);

// Where this data directory is; what cannot be found out stays empty.
core::Node read_node(const std::string& data_dir);

struct ProcessIdentity {
  int pid = 0;
  std::uint64_t start = 0;  // clock ticks since boot
};

enum class Same { no, yes, unknown };

// Whether the process of this pid is the one on record. A zombie still is. `unknown`: there is one,
// but it cannot be looked at now, for want of descriptors, say.
Same compare_process(const ProcessIdentity& process);

// It is, and has not ended: a zombie does not run.
bool runs(const ProcessIdentity& process);

// It certainly is.
bool same_process(const ProcessIdentity& process);

}  // namespace waybill::supervise
