#pragma once
// What can be known of a launch by looking at the file system, before the engine is asked.

#include <string>

#include "base/result.h"

namespace waybill::edge {

// cwd must be an absolute path of a directory that can be entered (cwd_missing names it); shell,
// unless empty, an absolute path of a program that can be executed (bad_request names it).
Result<void> check_launchable(const std::string& cwd, const std::string& shell);

}  // namespace waybill::edge
