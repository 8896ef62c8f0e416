// For tests: a small daemon that runs one order and waits for its end. It is started with
// WAYBILL_CRASH naming a point at which it dies.
//
//   crash_helper DATA SHIM JOB COMMAND run|stop

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>

#include "supervise/local_channel.h"

using waybill::JobId;
using waybill::Millis;
using waybill::WallTime;

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  std::mutex mutex;
  std::condition_variable changed;
  bool running = false;
  bool finished = false;
  waybill::supervise::LocalChannelOptions options;
  options.data_dir = argv[1];
  options.shim_path = argv[2];
  options.report = [&](const waybill::core::JobFacts& facts) {
    const std::lock_guard<std::mutex> guard(mutex);
    running = running || facts.started_at.has_value();
    finished = finished || facts.supervision == waybill::core::Supervision::finished;
    changed.notify_all();
  };
  auto channel = waybill::supervise::LocalChannel::open(std::move(options));
  if (!channel) return 3;
  waybill::supervise::LaunchOrder order;
  order.job = JobId(argv[3]);
  order.shell = "/bin/bash";
  order.command = argv[4];
  order.cwd = "/";
  order.env = {"PATH=/usr/bin:/bin", "WAYBILL_JOB=" + order.job.str(),
               std::string("DATA=") + argv[1]};
  order.grace = Millis(300);
  const JobId job = order.job;
  (*channel)->supervise({job, std::move(order), std::nullopt});
  std::unique_lock<std::mutex> guard(mutex);
  changed.wait(guard, [&] { return running; });
  if (std::string(argv[5]) == "stop") {
    guard.unlock();
    (*channel)->supervise(
        {job, std::nullopt, waybill::supervise::StopWish{WallTime(Millis(1)), "owner", ""}});
    guard.lock();
  }
  changed.wait(guard, [&] { return finished; });
  return 0;
}
