#pragma once
// What identifies a process: its number alone does not, since numbers come again.

#include <cstdint>
#include <optional>
#include <string>

namespace waybill::edge {

struct ProcessStat {
  std::string name;         // comm, any bytes
  int parent = 0;           // its number
  std::uint64_t start = 0;  // field 22, in clock ticks since boot
};

// /proc/PID/stat; nullopt when there is no such process.
std::optional<ProcessStat> process_stat(int pid);

}  // namespace waybill::edge
