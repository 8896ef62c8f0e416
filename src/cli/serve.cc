#include "cli/serve.h"

#include "cli/commands.h"

namespace waybill::cli {

Result<int> serve_command(const Context& context) {
  ServeOptions options;
  options.data_dir = context.data_dir;
  options.store = context.store;
  options.json = context.json;
  options.foreground = context.parsed.has("--foreground");
  for (const std::string& setting : context.parsed.all("--set")) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      return fail(ErrorCode::bad_request, "--set needs key=value, not \"" + setting + "\".");
    }
    options.settings.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
  }
  TRY_ASSIGN(const auto ready_fd, number_of(context.parsed, "--ready-fd"));
  if (ready_fd) options.ready_fd = static_cast<int>(*ready_fd);
  return serve_main(options);
}

}  // namespace waybill::cli
