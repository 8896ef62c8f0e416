#pragma once
// A pseudo-terminal for one job: we hold the side that reads what is printed and types, the job
// gets the other one. We keep that other one open too, so that reading never fails while the job
// lives. Our end takes it along: the kernel hangs the terminal up.

namespace waybill::shim {

struct Terminal {
  int ours = -1;
  int jobs = -1;
  int error = 0;  // why there is none

  // Both descriptors are close-on-exec, and `ours` does not block. Without `input` nobody will ever
  // type: reading from the terminal ends at once, as it does from /dev/null.
  void open(bool input);

  // Reading failed: somebody hung the terminal up under us (only root can). True when it is there
  // again.
  bool reopen();
};

}  // namespace waybill::shim
