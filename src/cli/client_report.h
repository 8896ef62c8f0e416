#pragma once
// What `doctor` says about the agents of this machine.

#include <boost/json/fwd.hpp>

#include "cli/client_config.h"

namespace waybill::cli {

// Appends one object to `clients`, and rows shaped like the daemon's to `findings`; none of them is
// a problem, since Waybill needs no agent. Runs the client's program to learn its version.
void report_client(ClientId client, boost::json::array& clients, boost::json::array& findings);

// One row for each session that is refused, by the daemon's status.
void report_refused(const boost::json::object& status, boost::json::array& findings);

// One row about the sessions that can be woken now, by the daemon's status.
void report_reachable(const boost::json::object& status, boost::json::array& findings);

}  // namespace waybill::cli
