#pragma once
// What a launch takes over from the process that asks for it: `run` and `mcp` do it the same way.

#include <boost/json/fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace waybill::cli {

// The file mode creation mask. It can only be read by setting it: call this while there is one
// thread.
unsigned callers_umask();

// The process's own environment, "NAME=value" each, byte for byte and without the host key.
std::vector<std::string> own_environment();

// An environment as a block of NAME=value entries, with `changes` on top.
std::string environment_block(std::vector<std::string> entries,
                              const std::vector<std::string>& changes);

// What a terminal of the job's own is called: the caller's name for another one does not count.
inline constexpr char kOwnTerminal[] = "TERM=dumb";

// The process's working directory; cwd_missing when it was removed.
Result<std::string> current_directory();

// Sets `name` to text, or `name`_base64 when the bytes are no text.
void set_bytes(boost::json::object& params, std::string_view name, const std::string& bytes);

}  // namespace waybill::cli
