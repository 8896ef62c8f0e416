#pragma once
// A disk under SQLite that fails when a test says so. Stands in front of the ordinary file layer of
// this whole program; without a fault it changes nothing.

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

}  // namespace waybill::test
