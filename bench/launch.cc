// Launch rate: commands from job.run to the answer of job.wait, which comes with the terminal
// receipt. Beside it a bare spawn with durable records, task-spooler and nq.

#include <sys/epoll.h>

#include <array>
#include <memory>
#include <vector>

#include "base/unique_fd.h"
#include "daemon.h"
#include "figures.h"
#include "peers.h"
#include "process.h"
#include "suite.h"

namespace waybill::bench {
namespace {

constexpr std::size_t kCallersPerSession = 10;
constexpr std::array kWidths{10, 50, 200};

// One caller: runs a job, waits for it, runs the next.
struct Caller {
  std::unique_ptr<Client> client;
  std::string session;
  std::string run;
  bool waits = false;
};

class Callers {
 public:
  Callers(const Daemon& daemon, const std::string& name, const std::string& command, int width)
      : epoll_(epoll_create1(EPOLL_CLOEXEC)), callers_(static_cast<std::size_t>(width)) {
    for (std::size_t i = 0; i < callers_.size(); ++i) {
      Caller& caller = callers_[i];
      caller.client = std::make_unique<Client>(daemon.socket_path());
      caller.session = name + std::to_string(i / kCallersPerSession);
      caller.run = request("job.run", R"({"session":")" + caller.session + R"(","cwd":"/",)" +
                                          command + R"(,"env":{"PATH":"/usr/bin:/bin"}})");
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u64 = i;
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, caller.client->fd(), &event);
    }
  }

  // Jobs per second.
  double rate(int jobs) {
    const std::int64_t start = mono_ns();
    int started = 0;
    int done = 0;
    for (Caller& caller : callers_) {
      if (started == jobs) break;
      caller.client->send(caller.run);
      ++started;
    }
    while (done < jobs) {
      std::array<epoll_event, 64> events{};
      const int ready = epoll_wait(epoll_.get(), events.data(), 64, -1);
      for (int e = 0; e < ready; ++e) {
        Caller& caller = callers_[events[static_cast<std::size_t>(e)].data.u64];
        if (!step(caller)) continue;
        ++done;
        if (started == jobs) continue;
        caller.client->send(caller.run);
        ++started;
      }
    }
    return jobs / seconds_since(start);
  }

 private:
  // True when the caller's job has ended.
  static bool step(Caller& caller) {
    std::string answer;
    if (!caller.client->receive_some(answer)) return false;
    caller.waits = !caller.waits;
    if (!caller.waits) {
      if (member(answer, "status") != "succeeded") die("a job did not succeed: " + answer);
      return true;
    }
    caller.client->send(request("job.wait", R"({"session":")" + caller.session + R"(","jobs":[")" +
                                                member(answer, "id") + R"("]})"));
    return false;
  }

  UniqueFd epoll_;
  std::vector<Caller> callers_;
};

constexpr char kTrue[] = R"("argv":["/bin/true"])";
constexpr char kBash[] = R"("command":"true")";

struct Width {
  Samples ours, daemon_cpu, chain_cpu, ours_bash, bare, bare_true, bare_twice, bare_cpu,
      bare_true_cpu;
};

struct Figures {
  std::array<Width, kWidths.size()> widths;
  Samples spooler, nq;
};

void measure_width(const Suite& suite, const Daemon& daemon, const std::string& name, int width,
                   Width& out) {
  const int jobs = suite.times(width > 50 ? 400 : 200);
  {
    Callers callers(daemon, name + "t", kTrue, width);
    const double daemon_cpu = cpu_seconds(daemon.pid());
    const double chain_cpu = reaped_cpu_seconds(daemon.pid());
    out.ours.push_back(callers.rate(jobs));
    out.daemon_cpu.push_back((cpu_seconds(daemon.pid()) - daemon_cpu) * 1e3 / jobs);
    out.chain_cpu.push_back((reaped_cpu_seconds(daemon.pid()) - chain_cpu) * 1e3 / jobs);
  }
  const Rate bash = bare_rate(suite, {"/bin/bash", "-c", "true"}, jobs, width, 1);
  out.bare.push_back(bash.per_second);
  out.bare_cpu.push_back(bash.cpu_ms);
  out.ours_bash.push_back(Callers(daemon, name + "b", kBash, width).rate(jobs));
  out.bare_twice.push_back(
      bare_rate(suite, {"/bin/bash", "-c", "true"}, jobs, width, 2).per_second);
  const Rate bare = bare_rate(suite, {"/bin/true"}, jobs, width, 1);
  out.bare_true.push_back(bare.per_second);
  out.bare_true_cpu.push_back(bare.cpu_ms);
}

void print_width(const Width& width, int at_once) {
  const std::string text = std::to_string(at_once) + " at once: ";
  print_row(text + "true", width.ours, "/s");
  print_row("  CPU of the daemon", width.daemon_cpu, "ms/job");
  print_row("  CPU of supervisor and command", width.chain_cpu, "ms/job");
  print_row(text + "bash -c true", width.ours_bash, "/s");
  print_row("  bare true, one record synced", width.bare_true, "/s");
  print_row("    CPU of the command", width.bare_true_cpu, "ms/job");
  print_row("  bare bash -c true, one record synced", width.bare, "/s");
  print_row("    CPU of the command", width.bare_cpu, "ms/job");
  print_row("  bare bash -c true, start and end synced", width.bare_twice, "/s");
  print_target("true / bare bash -c true, one record", median(ratios(width.ours, width.bare)),
               {Aim::at_least, 0.8, "x"});
}

}  // namespace

void bench_launch(const Suite& suite) {
  const Daemon daemon({suite.waybill, suite.dir + "/launch", {}, false});
  Figures figures;
  for (int round = 0; round < suite.rounds; ++round) {
    for (std::size_t i = 0; i < kWidths.size(); ++i) {
      const std::string name = std::to_string(round) + "-" + std::to_string(i) + "-";
      measure_width(suite, daemon, name, kWidths[i], figures.widths[i]);
    }
    if (TaskSpooler::there()) {
      figures.spooler.push_back(TaskSpooler(suite, kWidths[1]).rate(suite.times(200)));
    }
    if (Nq::there()) figures.nq.push_back(Nq(suite).rate(suite.times(100)));
  }
  print_section("Launch: from job.run to the terminal receipt");
  for (std::size_t i = 0; i < kWidths.size(); ++i) print_width(figures.widths[i], kWidths[i]);
  if (!figures.nq.empty()) print_row("nq, true (one at a time)", figures.nq, "/s");
  if (figures.spooler.empty()) return print_text("task-spooler", "not installed");
  print_row("task-spooler, true, 50 at once", figures.spooler, "/s");
  print_target("true, 50 at once / task-spooler",
               median(ratios(figures.widths[1].ours, figures.spooler)), {Aim::at_least, 3, "x"});
}

}  // namespace waybill::bench
