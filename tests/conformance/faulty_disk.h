#pragma once
// A disk under SQLite that fails when a test says so. Stands in front of the ordinary file layer of
// this whole program; without a fault it changes nothing. One thread at a time.

#include <cstdint>
#include <string>

namespace waybill::test {

enum class Fault {
  none,
  write_full,       // no space is left
  write_quota,      // the user's quota is spent: SQLite itself calls this an I/O error
  write_read_only,  // the file system has become read-only
  write_broken,     // an I/O error
  sync_broken,      // a sync fails: what was written is in doubt
};

void set_fault(Fault fault);

class WithFault {
 public:
  explicit WithFault(Fault fault) { set_fault(fault); }
  ~WithFault() { set_fault(Fault::none); }
  WithFault(const WithFault&) = delete;
  WithFault& operator=(const WithFault&) = delete;
};

// What a power failure leaves of the writes since the last sync of their file.
enum class Unsynced {
  lost,   // nothing
  kept,   // everything, also the write under way
  mixed,  // of each write everything, nothing, or some of its sectors of 512 bytes
};

// The machine under the store, while this lives: it can lose its power, and then the disk has what
// was synced and, of what was not, what chance has left. Files that are opened from now on are
// followed; their syncs go to no real disk, so a journey is quick.
class CrashDisk {
 public:
  CrashDisk();
  ~CrashDisk();
  CrashDisk(const CrashDisk&) = delete;
  CrashDisk& operator=(const CrashDisk&) = delete;

  // The power fails at the n-th of the operations from now on that change or sync a file, from 1;
  // 0: never. From then on nothing can be read or written.
  void crash_at(std::uint64_t operation);
  bool crashed() const;
  // Operations since the last crash_at, or since the beginning.
  std::uint64_t operations() const;

  // The power is back: the files become what the failure has left. Everything must be closed.
  // The same seed leaves the same. Without a failure before, one happens now.
  void power_on(Unsynced unsynced, std::uint64_t seed);
};

}  // namespace waybill::test
