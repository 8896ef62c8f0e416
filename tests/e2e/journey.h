#pragma once
// The ways of the crash matrix: what a host and its jobs do from attach to quiet, going on through
// every death of the daemon, and the audit of what became of the promises.

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "audit/ledger.h"
#include "e2e/harness.h"

namespace waybill::e2e {

class Journey {
 public:
  struct Options {
    std::vector<std::string> settings = {};  // "name=value"
    // Environments of the first daemon and of those after it; then they have none. One that dies
    // before it is ready has its successor.
    std::vector<std::vector<std::string>> envs = {};
    // Whenever a daemon has died, the supervisors are killed, too, before the next one looks.
    bool lose_supervisors = false;
    // The supervisor of the way's own job dies by itself: its end may be unknown.
    bool loses_supervisor = false;
  };
  explicit Journey(Options options);

  // ---- steps

  void attach(const std::vector<std::string>& flags = {});
  void begin(const std::string& turn = "t1");
  // How a job has to end where nobody but daemons die. No status: it depends on the way.
  struct Wanted {
    std::string status = "failed";
    std::optional<int> code = 3;
    bool runs = true;
    bool given_up = false;  // by an operator: nobody saw its end
  };
  // The command writes its id, then goes on with `rest`.
  std::string run(const std::string& owner, const std::string& rest,
                  const std::vector<std::string>& flags, const Wanted& wanted);
  std::string run(const std::string& owner, const std::string& rest) {
    return run(owner, rest, {}, Wanted{});
  }
  // Hears what the end of the turn hands over, until the turn is closed.
  void end_turn(const std::string& turn = "t1");
  // Until something was heard that begins so, at any time or from now on.
  enum class Since { ever, now };
  void take_inbox(const std::string& event = {}, Since since = Since::ever);
  void acknowledge();
  void stop(bool wait = true);
  // Until the newest job is gone with its files, by an operator's `prune` or by itself. It is
  // audited here, since nobody can look at it afterwards.
  enum class By { operator_, time };
  void pruned(By by);
  void wait_for_job();
  void show_job();
  // Not made again when the daemon dies under it: what it had recorded must be enough.
  void write(const std::string& text);
  void close_input();

  boost::json::value call(std::vector<std::string> arguments, int exit_code = 0);
  // A call without the command line, over a connection of its own that may stay; made again when
  // the daemon dies under it. Null after an answer that is an error.
  boost::json::value rpc(const std::string& method, boost::json::object params, bool host = true);
  // Takes what is pending and says nothing of having read it. The connection stays.
  std::string take_and_hold();
  void let_go() { client_.reset(); }
  void hear(const boost::json::value& hand_over);
  // Asks, without being the host, until the answer fits; each question takes its time.
  template <class Fits>
  void until(const std::string& method, const boost::json::object& params, Fits fits) {
    const auto end = std::chrono::steady_clock::now() + kCap;
    while (!fits(rpc(method, params, false))) {
      if (std::chrono::steady_clock::now() > end) return stuck(method);
    }
  }
  // Notices a death after the last call.
  void settle() { call({"status"}); }

  // ---- what there is

  Gate& gate() { return gate_; }
  Bell& bell() { return bell_; }
  Daemon& daemon() { return daemon_; }
  std::string path(const std::string& name) const { return temp_.path() + "/" + name; }
  const std::string& job_id() const { return jobs_.back(); }
  const std::vector<std::string>& jobs() const { return jobs_; }
  int deaths() const { return daemon_.deaths(); }
  bool some_supervisor_lost() const { return options_.loses_supervisor || supervisors_lost_ > 0; }
  // Whether a daemon saw its supervisor killed.
  bool supervisor_killed() const;

  // Everything that is promised whatever died.
  void audit();

 private:
  static void stuck(const std::string& method);
  void kill_supervisors();
  void audit_job(const boost::json::value& job, int runs);
  boost::json::object with_caller(boost::json::object params, bool host) const;

  Options options_;
  TempDir temp_;
  Daemon daemon_;
  Bell bell_;
  Gate gate_;
  std::vector<std::string> jobs_;
  std::map<std::string, Wanted> wanted_;
  std::set<std::string> heard_;
  std::vector<audit::Sight> sights_;
  std::optional<std::string> written_;  // what `write` was told to have been taken
  std::unique_ptr<RawClient> client_;
  int supervisors_lost_ = 0;
};

struct Way {
  std::string_view name;
  std::vector<std::string> settings;
  void (*go)(Journey&);
  bool loses_supervisor = false;
};

const std::vector<Way>& ways();
const Way& way_named(std::string_view name);
// The shortest way that passes a point of the daemon or of the supervisor.
const Way& way_to(std::string_view point);

// A point's name as that of a test.
std::string test_name(std::string_view point);

}  // namespace waybill::e2e
