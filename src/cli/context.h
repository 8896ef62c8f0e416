#pragma once
// What every command is given: its parsed arguments and the common flags resolved.

#include <boost/json/fwd.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/parse.h"

namespace waybill::cli {

struct Context {
  Parsed parsed;
  std::string data_dir;  // absolute
  std::string store;
  std::string tenant;    // "" default
  std::string session;   // "" default
  std::string host_key;  // "" none
  bool json = false;
  bool autostart = true;
};

// Flags, then environment, then defaults (SPEC section 15).
Result<Context> make_context(Parsed parsed);

// An object with the caller's fields set.
boost::json::object caller_params(const Context& context);

}  // namespace waybill::cli
