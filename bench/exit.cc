// From the last act of a command to the answer of the inbox.take that its host is blocked in.

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"
#include "daemon.h"
#include "figures.h"
#include "peers.h"
#include "suite.h"

namespace waybill::bench {
namespace {

constexpr std::size_t kSettleBytes = 72 * 1024;
constexpr char kHost[] = R"("session":"host","host_key":"bench-host-key")";

class Host {
 public:
  Host(const Suite& suite, const Daemon& daemon)
      : suite_(suite), inbox_(daemon.socket_path()), control_(daemon.socket_path()) {
    control_.call("session.attach", std::string("{") + kHost + "}");
  }

  double exit_ms() {
    inbox_.send(request("inbox.take", std::string("{") + kHost + R"(,"timeout_ms":60000})"));
    control_.call("job.run", std::string("{") + kHost + R"(,"cwd":"/","argv":[")" + suite_.stamp +
                                 R"(",")" + stamp_file(suite_) + R"(",")" + kStampMs + R"("]})");
    const std::string answer = inbox_.receive();
    const std::int64_t heard = mono_ns();
    control_.call(
        "ack", std::string("{") + kHost + R"(,"ids":[")" + member(answer, "delivery") + R"("]})");
    return static_cast<double>(heard - read_stamp(suite_)) / 1e6;
  }

 private:
  const Suite& suite_;
  Client inbox_;
  Client control_;
};

// The disk's part: one append of about what the settling commit writes, synced.
double append_ms(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const std::string block(kSettleBytes, 'a');
  const std::int64_t start = mono_ns();
  if (write(fd.get(), block.data(), block.size()) != static_cast<ssize_t>(block.size()) ||
      fdatasync(fd.get()) != 0) {
    die("cannot append to " + path);
  }
  return seconds_since(start) * 1e3;
}

void print_latency(const std::string& what, const Samples& samples) {
  print_row(what + ", p50", {percentile(samples, 0.5)}, "ms");
  print_row(what + ", p95", {percentile(samples, 0.95)}, "ms");
}

}  // namespace

void bench_exit(const Suite& suite) {
  const Daemon daemon({suite.waybill, suite.dir + "/exit", {}, false});
  Host host(suite, daemon);
  Samples ours;
  Samples disk;
  Samples spooler;
  Samples nq;
  const int times = suite.times(20);
  for (int round = 0; round < suite.rounds; ++round) {
    for (int i = 0; i < times; ++i) {
      ours.push_back(host.exit_ms());
      disk.push_back(append_ms(suite.dir + "/append"));
    }
    if (TaskSpooler::there()) {
      TaskSpooler queue(suite, 1);
      for (int i = 0; i < times; ++i) spooler.push_back(queue.exit_ms());
    }
    if (Nq::there()) {
      const Nq queue(suite);
      for (int i = 0; i < times; ++i) nq.push_back(queue.exit_ms());
    }
  }
  print_section("Exit: from the command's last act to whoever waits for it");
  print_latency("blocked inbox.take answered", ours);
  print_latency("  72 KiB append + fdatasync, as the settling commit does", disk);
  if (!spooler.empty()) print_latency("task-spooler, tsp -w returned", spooler);
  if (!nq.empty()) print_latency("nq, nq -w returned", nq);
  print_target("blocked inbox.take answered, p50", percentile(ours, 0.5), {Aim::below, 2, "ms"});
}

}  // namespace waybill::bench
