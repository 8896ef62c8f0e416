// From the last act of a command to the answer of the inbox.take that its host is blocked in.

#include <string>

#include "daemon.h"
#include "figures.h"
#include "peers.h"
#include "suite.h"

namespace waybill::bench {
namespace {

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

void print_latency(const std::string& what, const Samples& samples) {
  print_row(what + ", p50", {percentile(samples, 0.5)}, "ms");
  print_row(what + ", p95", {percentile(samples, 0.95)}, "ms");
}

}  // namespace

void bench_exit(const Suite& suite) {
  const Daemon daemon({suite.waybill, suite.dir + "/exit", {}, false});
  Host host(suite, daemon);
  Samples ours;
  Samples spooler;
  Samples nq;
  const int times = suite.times(20);
  for (int round = 0; round < suite.rounds; ++round) {
    for (int i = 0; i < times; ++i) ours.push_back(host.exit_ms());
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
  if (!spooler.empty()) print_latency("task-spooler, tsp -w returned", spooler);
  if (!nq.empty()) print_latency("nq, nq -w returned", nq);
  print_target("blocked inbox.take answered, p50", percentile(ours, 0.5), {Aim::below, 2, "ms"});
}

}  // namespace waybill::bench
