// The ways of the crash matrix, and which is the shortest to each point.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "e2e/journey.h"

namespace waybill::e2e {
namespace {

namespace json = boost::json;

using Wanted = Journey::Wanted;

void arrive(Journey& journey) {
  journey.attach();
  journey.begin();
}

void quiet_node(Journey& journey) {
  journey.until("status", {},
                [](const json::value& status) { return number_at(status, "running_jobs") == 0; });
}

// Until the job says so, or has ended without.
void started(Journey& journey) {
  journey.until("job.show", {{"job", journey.job_id()}}, [&](const json::value& answer) {
    return journey.bell().word(Seconds{0}) || !at(answer, "job.finished_at").is_null();
  });
}

// A job of the turn, heard at its end.
void turn(Journey& journey) {
  arrive(journey);
  journey.run("turn", "exit 3", {"--turn", "t1"}, {});
  journey.end_turn();
  journey.acknowledge();
}

// A job of the session, heard through the inbox.
void inbox(Journey& journey) {
  arrive(journey);
  journey.run("session", "exit 3");
  journey.take_inbox();
  journey.acknowledge();
  journey.end_turn();
}

// One that runs until everybody has looked.
void held(Journey& journey) {
  arrive(journey);
  journey.run("session", journey.gate().command() + "; exit 3");
  journey.settle();
  journey.gate().open();
  journey.take_inbox();
  journey.acknowledge();
  journey.end_turn();
}

// Its owner waits for it: the answer is the delivery.
void wait(Journey& journey) {
  arrive(journey);
  journey.run("session", "exit 3");
  journey.wait_for_job();
  journey.end_turn();
}

// Its owner looks at it when it has ended: the same.
void show(Journey& journey) {
  arrive(journey);
  journey.run("session", "exit 3");
  quiet_node(journey);
  journey.show_job();
  journey.end_turn();
}

// A hand-over that nobody confirms comes again when its time is over …
void expiring_offer(Journey& journey) {
  arrive(journey);
  journey.run("session", "exit 3");
  journey.take_and_hold();
  journey.take_inbox(journey.job_id(), Journey::Since::now);
  journey.let_go();
  journey.acknowledge();
  journey.end_turn();
}

// … when its connection closes …
void closed_connection(Journey& journey) {
  arrive(journey);
  journey.run("session", "exit 3");
  journey.take_and_hold();
  journey.let_go();
  journey.take_inbox(journey.job_id(), Journey::Since::now);
  journey.acknowledge();
  journey.end_turn();
}

// … or when it is given back.
void returned_offer(Journey& journey) {
  arrive(journey);
  journey.run("session", "exit 3");
  const std::string delivery = journey.take_and_hold();
  if (!delivery.empty()) journey.rpc("delivery.returned", {{"delivery", delivery}});
  journey.take_inbox(journey.job_id(), Journey::Since::now);
  journey.acknowledge();
  journey.end_turn();
}

// A job that leaves a process behind, which holds its output.
void leftovers(Journey& journey) {
  arrive(journey);
  journey.run("turn", "sleep 300 & exit 3", {"--turn", "t1"}, {});
  journey.end_turn();
  journey.acknowledge();
}

// A job that is stopped by its owner; it ignores TERM.
void stop(Journey& journey) {
  arrive(journey);
  journey.run("turn", "trap '' TERM; " + journey.bell().command("up") + "; sleep 300",
              {"--turn", "t1"}, {"stopped", std::nullopt});
  started(journey);
  journey.stop();
  journey.end_turn();
}

// The same; it takes so long that somebody is told.
void stuck_stop(Journey& journey) {
  arrive(journey);
  journey.run("session", "trap '' TERM; " + journey.bell().command("up") + "; sleep 300",
              {"--grace", "700ms"}, {"stopped", std::nullopt});
  started(journey);
  journey.stop(false);
  journey.until("session.show", {}, [](const json::value& answer) {
    return number_at(answer, "session.undelivered") > 0 ||
           number_at(answer, "session.running_jobs") == 0;
  });
  journey.stop();
  journey.end_turn();
}

// A stop that cannot be confirmed, as far as anybody can tell: an operator gives it up.
void release(Journey& journey) {
  arrive(journey);
  journey.run("session",
              "trap '' TERM; " + journey.bell().command("up") + "; " + journey.gate().command(),
              {"--grace", "1h"}, {"failed", std::nullopt, true, true});
  started(journey);
  journey.stop(false);
  journey.take_inbox(journey.job_id() + ".stop_stuck");
  journey.rpc("owner.release", {{"reason", "a test"}}, false);
  journey.take_inbox(journey.job_id() + ".failed");
  journey.acknowledge();
  journey.gate().open();
  journey.end_turn();
}

// Everything is stopped by the operator, with the daemon.
void stop_all(Journey& journey) {
  arrive(journey);
  journey.run("session", journey.bell().command("up") + "; sleep 300", {},
              {"stopped", std::nullopt});
  started(journey);
  journey.call({"shutdown", "--stop-jobs"});
  journey.take_inbox(journey.job_id());
  journey.acknowledge();
  journey.end_turn();
}

// A job that would be started too late.
void queue(Journey& journey) {
  arrive(journey);
  const std::string first = journey.run("session", journey.gate().command() + "; exit 3");
  const std::string second = journey.run("session", "exit 3", {"--start-within", "150ms"},
                                         {"failed", std::nullopt, false});
  journey.take_inbox(second);
  journey.gate().open();
  journey.take_inbox(first);
  journey.acknowledge();
  journey.end_turn();
}

// A job with a monitor, which tells of a line before the job ends.
void monitor(Journey& journey) {
  arrive(journey);
  journey.run("turn", "echo boom; " + journey.gate().command() + "; exit 3",
              {"--turn", "t1", "--monitor", "boom"}, {});
  journey.take_inbox(journey.job_id());
  journey.gate().open();
  journey.end_turn();
  journey.acknowledge();
}

// A job that is told something, and waits for the end of its input.
void input(Journey& journey) {
  arrive(journey);
  journey.run("turn", "cat; exit 3", {"--turn", "t1", "--stdin"}, {});
  journey.write("hello\n");
  journey.close_input();
  journey.settle();
  journey.end_turn();
  journey.acknowledge();
}

// A job that is over and heard is removed, by an operator …
void prune(Journey& journey) {
  arrive(journey);
  journey.run("session", "exit 3");
  journey.take_inbox();
  journey.acknowledge();
  journey.end_turn();
  journey.pruned(Journey::By::operator_);
}

// … or when its time is over.
void retention(Journey& journey) {
  arrive(journey);
  journey.run("session", "exit 3");
  journey.take_inbox();
  journey.acknowledge();
  journey.end_turn();
  journey.pruned(Journey::By::time);
}

json::object session_of(const json::value& answer) {
  const json::value session = at(answer, "session");
  return session.is_object() ? session.as_object() : json::object{};
}

// The host's process dies in its turn, and does not come back in time: the turn is given up.
void gone_host(Journey& journey) {
  Process host({.argv = {"/bin/sleep", "300"}});
  journey.attach({"--host-pid", std::to_string(host.pid())});
  journey.begin();
  journey.run("turn", journey.gate().command() + "; exit 3", {"--turn", "t1"}, {});
  host.signal(SIGKILL);
  host.finish();
  journey.until("session.show", {},
                [](const json::value& answer) { return session_of(answer)["turn"].is_null(); });
  journey.attach({"--host-pid", std::to_string(::getpid())});
  journey.gate().open();
  journey.take_inbox(journey.job_id());
  journey.acknowledge();
  journey.settle();
}

// The host says nothing for longer than its lease lasts; then it goes on with its turn.
void lapsed_lease(Journey& journey) {
  arrive(journey);
  journey.run("turn", journey.gate().command() + "; exit 3", {"--turn", "t1"}, {});
  journey.until("session.show", {}, [](const json::value& answer) {
    return at(answer, "session.lease.live") == false;
  });
  journey.attach();
  for (const json::value& message :
       items_at(journey.call({"turn", "resume", "--turn", "t1"}), "messages")) {
    journey.hear(message);
  }
  journey.gate().open();
  journey.end_turn();
  journey.acknowledge();
}

// A client that is idle is woken; no turn comes of the first time.
void wake(Journey& journey) {
  journey.rpc("session.attach", {{"client", "claude"}});
  journey.run("session", journey.gate().command() + "; exit 3");
  journey.gate().open();
  for (int times = 0; times < 2; ++times) {
    const json::value answer = journey.rpc("wake.wait", {{"timeout_ms", 60000}});
    EXPECT_EQ(at(answer, "wake"), true) << json::serialize(answer);
  }
  journey.begin();
  journey.end_turn();
  journey.acknowledge();
}

constexpr const char* kPrint = "head -c 700000 /dev/zero; exit 3";

// What was heard makes room …
void expire_output(Journey& journey) {
  arrive(journey);
  const std::string first = journey.run("session", kPrint);
  for (int more = 0; more < 3; ++more) {
    journey.take_inbox(journey.job_id());
    journey.acknowledge();
    const json::value job = journey.rpc("job.show", {{"job", first}}, false);
    if (more == 2 || !at(job, "job.output.expired_at").is_null()) break;
    journey.run("session", kPrint);
  }
  journey.run("session", "exit 3");
  journey.take_inbox(journey.job_id());
  journey.acknowledge();
  journey.end_turn();
}

// … and what was not is made shorter.
void shorten_output(Journey& journey) {
  arrive(journey);
  journey.run("session", kPrint);
  journey.run("session", kPrint);
  quiet_node(journey);
  journey.run("session", "exit 3");
  for (const std::string& job : journey.jobs()) journey.take_inbox(job);
  journey.acknowledge();
  journey.end_turn();
}

// A job that kills its supervisor and leaves somebody behind who ignores TERM: the daemon completes
// its records.
void orphan(Journey& journey) {
  arrive(journey);
  journey.run("session", "(trap '' TERM; exec sleep 300) & kill -9 $PPID; " +
                             journey.gate().command() + "; exit 3");
  journey.gate().open();
  journey.take_inbox(journey.job_id());
  journey.acknowledge();
  journey.until("job.show", {{"job", journey.job_id()}}, [](const json::value& answer) {
    return !at(answer, "job.leftovers_kept").is_null() || items_at(answer, "job.leftovers").empty();
  });
  journey.end_turn();
}

}  // namespace

const std::vector<Way>& ways() {
  static const std::vector<Way> all{
      {"turn", {}, turn},
      {"inbox", {}, inbox},
      {"held", {}, held},
      {"wait", {}, wait},
      {"show", {}, show},
      {"expiring_offer", {"offer_deadline=200ms"}, expiring_offer},
      {"closed_connection", {}, closed_connection},
      {"returned_offer", {}, returned_offer},
      {"leftovers", {}, leftovers},
      {"stop", {}, stop},
      {"stuck_stop", {"stop_stuck_after=100ms"}, stuck_stop},
      {"release", {"stop_stuck_after=100ms"}, release},
      {"stop_all", {}, stop_all},
      {"queue", {"running_per_session=1"}, queue},
      {"monitor", {}, monitor},
      {"input", {}, input},
      {"gone_host", {"turn_abandon_after=100ms"}, gone_host},
      {"lapsed_lease", {"host_lease=300ms", "turn_lease=300ms"}, lapsed_lease},
      {"wake", {"offer_deadline=200ms", "max_consecutive_wakes=100"}, wake},
      {"expire_output", {"session_disk_quota_bytes=1MiB"}, expire_output},
      {"shorten_output", {"session_disk_quota_bytes=1MiB"}, shorten_output},
      {"prune", {}, prune},
      {"retention", {"retention=1s"}, retention},
      {"orphan", {"leftover_grace=50ms"}, orphan, true},
  };
  return all;
}

const Way& way_named(std::string_view name) {
  return *std::ranges::find_if(ways(), [&](const Way& way) { return way.name == name; });
}

const Way& way_to(std::string_view point) {
  // The first part that a point's name has decides.
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 30> kTo{{
      {"owed.prune", "retention"},
      {"prune", "prune"},
      {"in_close", "input"},
      {"input", "input"},
      {"stop_all", "stop_all"},
      {"engine.release", "release"},
      {"stop_stuck", "stuck_stop"},
      {"stop", "stop"},
      {"ctl", "stop"},
      {"orphan", "orphan"},
      {"leftovers", "leftovers"},
      {"draining", "leftovers"},
      {"monitor", "monitor"},
      {"offer_expiry", "expiring_offer"},
      {"closed", "closed_connection"},
      {"returned", "returned_offer"},
      {"host_lease", "lapsed_lease"},
      {"turn_abandon", "gone_host"},
      {"gone", "gone_host"},
      {"start_within", "queue"},
      {"wake", "wake"},
      {"room.expire", "expire_output"},
      {"room.shorten", "shorten_output"},
      {"engine.wait", "wait"},
      {"engine.show", "show"},
      {"inbox", "inbox"},
      {"open.", "held"},
      {"start.", "held"},
      {"attached", "stop"},
      {"owed.supervise", "held"},
  }};
  for (const auto& [part, name] : kTo) {
    if (point.find(part) != std::string_view::npos) return way_named(name);
  }
  return way_named("turn");
}

}  // namespace waybill::e2e
