#pragma once
// What several commands do the same way.

#include <boost/json/fwd.hpp>
#include <string>
#include <string_view>

#include "cli/client.h"
#include "cli/context.h"

namespace waybill::cli {

ClientOptions client_options(const Context& context);

// Connects and asks once.
Result<boost::json::object> ask(const Context& context, std::string_view method,
                                const boost::json::object& params);

// Flushes stdout, then tells the daemon that what this delivery carried is out ("" none). What
// could not be printed is not confirmed and comes again.
Result<void> confirm(Client& client, const Context& context, const std::string& delivery);

// --wrapper as the parameter `wrapper`, if it is there.
Result<void> set_wrapper(boost::json::object& params, const Parsed& parsed);

// The answer without the fields that are for this program only, as one line.
void print_json(boost::json::object answer);

// A fresh id that sorts by time.
std::string fresh_id(std::string_view prefix);

}  // namespace waybill::cli
