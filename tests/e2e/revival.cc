// A daemon that dies under its callers, and those that come after it.

#include <gtest/gtest.h>

#include <csignal>

#include "e2e/harness.h"

namespace waybill::e2e {

bool Daemon::crashed() {
  if (!running() || process_->running()) return false;
  if (process_->finish().exit_code == 128 + SIGKILL) ++deaths_;
  process_.reset();
  return true;
}

bool Daemon::revive() {
  if (running() && !crashed()) return false;
  if (on_death_) on_death_();
  while (!successors_.empty()) {
    set_daemon_env(std::move(successors_.front()));
    successors_.erase(successors_.begin());
    if (try_start()) return true;
    const Output output = process_->finish();
    process_.reset();
    ++deaths_;
    EXPECT_EQ(output.exit_code, 128 + SIGKILL) << output.describe();
    if (on_death_) on_death_();
  }
  set_daemon_env({});
  start();
  return true;
}

Output Daemon::cli_through_crashes(const std::vector<std::string>& arguments) {
  constexpr int kNoDaemon = 122;
  constexpr int kTries = 5;
  Output output;
  for (int tries = 0; tries < kTries; ++tries) {
    revive();
    if (!running()) return output;
    Process client(command(arguments));
    bool revived = false;
    do {  // the next one may die, too, while the call goes on
      Process::wait_for_either(client, *process_);
      revived = revive() || revived;
    } while (running() && client.running());
    output = client.finish();
    if (output.exit_code != kNoDaemon) return output;
    if (!revived) wait_for_end();  // it is just dying
  }
  return output;
}

}  // namespace waybill::e2e
