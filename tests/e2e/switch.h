#pragma once
// A program that serves and calls as whichever program is the present one: another version, another
// machine.

#include <sys/stat.h>

#include <fstream>
#include <string>

#include "e2e/harness.h"

namespace waybill::e2e {

class Switch {
 public:
  void to(const std::string& program) {
    std::ofstream(path_ + ".now") << program;
    std::ofstream(path_) << "#!/bin/sh\nexec \"$(cat '" << path_ << ".now')\" \"$@\"\n";
    ::chmod(path_.c_str(), 0755);
  }
  const std::string& program() const { return path_; }

 private:
  TempDir temp_;
  std::string path_ = temp_.path() + "/waybill";
};

}  // namespace waybill::e2e
