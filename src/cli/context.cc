#include "cli/context.h"

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>

#include "base/ids.h"

namespace waybill::cli {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<std::string> data_directory(const Parsed& parsed) {
  std::string path = parsed.find("--data").value_or(environment("WAYBILL_DATA"));
  if (path.empty()) {
    const std::string state = environment("XDG_STATE_HOME");
    const std::string home = environment("HOME");
    if (!state.empty() && state.front() == '/') {
      path = state + "/waybill";
    } else if (!home.empty()) {
      path = home + "/.local/state/waybill";
    } else {
      return fail(ErrorCode::bad_request,
                  "There is no data directory: neither WAYBILL_DATA, XDG_STATE_HOME nor HOME is "
                  "set; give --data DIR.");
    }
  }
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) {
    return fail(ErrorCode::bad_request,
                "--data " + path +
                    " is relative and the current directory is gone; give an "
                    "absolute path.");
  }
  return absolute.lexically_normal().string();
}

}  // namespace

Result<Context> make_context(Parsed parsed) {
  Context context;
  TRY_ASSIGN(context.data_dir, data_directory(parsed));
  context.store = parsed.find("--store").value_or("");
  context.tenant = parsed.find("--tenant").value_or("");
  context.session = parsed.find("--session").value_or(environment("WAYBILL_SESSION"));
  context.host_key = parsed.find("--host-key").value_or(environment("WAYBILL_HOST_KEY"));
  context.json = parsed.has("--json");
  context.autostart = !parsed.has("--no-autostart");
  if (!context.tenant.empty()) TRY(check_id(context.tenant, "--tenant"));
  if (!context.session.empty()) TRY(check_id(context.session, "--session"));
  if (!context.host_key.empty()) TRY(check_id(context.host_key, "--host-key"));
  context.parsed = std::move(parsed);
  return context;
}

boost::json::object caller_params(const Context& context) {
  boost::json::object out;
  if (!context.tenant.empty()) out["tenant"] = context.tenant;
  if (!context.session.empty()) out["session"] = context.session;
  if (!context.host_key.empty()) out["host_key"] = context.host_key;
  return out;
}

}  // namespace waybill::cli
