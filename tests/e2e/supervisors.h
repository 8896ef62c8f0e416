#pragma once
// The supervisors of a data directory, as /proc shows them.

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace waybill::e2e {

// The third field of its stat; 'X' when it is gone.
char state_of(pid_t pid);
// Those that live, without their children at the gate.
std::vector<pid_t> supervisors_of(const std::string& data_dir);
// Until it holds, looking every few milliseconds; false after the cap.
bool eventually(const std::function<bool()>& condition);

}  // namespace waybill::e2e
