#pragma once
// A blocking client of the daemon: connects, says hello, starts a daemon when none runs, and asks
// again after a daemon was restarted. Everything the command line asks can be asked twice: runs
// carry a key, the rest is a read or changes nothing the second time. Only `write` is different.

#include <boost/json/fwd.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace waybill::cli {

struct ClientOptions {
  std::string data_dir;
  std::string store;
  bool autostart = true;
  std::string executable;       // what is started; empty: this program
  Millis reconnect_for{30000};  // after a connection was lost
  int interrupt_fd = -1;        // readable: give up waiting (interrupted())
};

class Client {
 public:
  explicit Client(ClientOptions options);

  // unavailable (nobody there), unsupported_version, or the daemon's own error while starting.
  Result<void> connect();

  // One call. A connection that is lost meanwhile is made again and the call repeated.
  Result<boost::json::object> call(std::string_view method, const boost::json::object& params);

  struct Waiting {
    std::string_view field = "timeout_ms";  // the parameter that bounds one call
    std::optional<Millis> total;            // null: for as long as it takes
    // Whether this answer only says that the call's time ran out.
    std::function<bool(const boost::json::object&)> timed_out;
  };
  // A call that waits, in slices the daemon allows. When the total time has passed, the last
  // answer.
  Result<boost::json::object> call_waiting(std::string_view method, boost::json::object params,
                                           const Waiting& waiting);

  // One call that must not be made twice. nullopt: the connection was lost before the answer came,
  // and what became of the call is not known. Afterwards `reconnect` is in order.
  std::optional<Result<boost::json::object>> call_once(std::string_view method,
                                                       const boost::json::object& params);
  // Makes the connection again, with a daemon that is started if need be.
  Result<void> reconnect();

  // Until the daemon has closed this connection, at most `most`.
  bool wait_for_end(Millis most);

  bool interrupted() const { return interrupted_; }
  const std::string& daemon_version() const { return daemon_version_; }

 private:
  enum class Lost { no, yes };
  struct Exchange {
    Lost lost = Lost::no;
    Result<std::string> line;
  };

  Result<void> connect_once();
  Result<void> start();
  Result<void> hello();
  Exchange exchange(const std::string& line, const std::string& id);
  void send_all(std::string_view text);
  tl::unexpected<Error> gives_up() const;
  Exchange read_answer(const std::string& id);
  Result<boost::json::object> answer_of(const std::string& line) const;
  // What the daemon said to one call on the present connection; nullopt: it is lost.
  std::optional<Result<boost::json::object>> said_to(std::string_view method,
                                                     const boost::json::object& params);
  // The same; nullopt also when the daemon is ending and does not want to say anything.
  std::optional<Result<boost::json::object>> try_call(std::string_view method,
                                                      const boost::json::object& params);

  ClientOptions options_;
  UniqueFd fd_;
  std::string buffer_;
  std::uint64_t next_id_ = 0;
  Millis slice_max_{600000};
  std::string daemon_version_;
  bool interrupted_ = false;
};

}  // namespace waybill::cli
