#include "cli/ask.h"

#include <sodium.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "base/clock.h"
#include "base/ids.h"
#include "cli/answer.h"
#include "cli/output.h"
#include "cli/quote.h"
#include "edge/json.h"

namespace waybill::cli {

ClientOptions client_options(const Context& context) {
  ClientOptions options;
  options.data_dir = context.data_dir;
  options.store = context.store;
  options.autostart = context.autostart;
  return options;
}

Result<json::object> ask(const Context& context, std::string_view method,
                         const json::object& params) {
  Client client(client_options(context));
  TRY(client.connect());
  return client.call(method, params);
}

Result<void> confirm(Client& client, const Context& context, const std::string& delivery) {
  TRY(flush_stdout());
  if (delivery.empty()) return {};
  json::object params = caller_params(context);
  params["delivery"] = delivery;
  if (const auto done = client.call("delivery.flushed", params); !done) {
    note("The daemon did not take the confirmation of " + delivery + " (" + done.error().message +
         "); it will come again as a repeat.");
  }
  return {};
}

void print_json(json::object answer) {
  answer.erase("reported");
  print_line(edge::to_text(answer));
}

std::string fresh_id(std::string_view prefix) {
  std::array<unsigned char, 10> random{};
  ::randombytes_buf(random.data(), random.size());
  const auto now = SystemClock().wall().time_since_epoch().count();
  return make_sortable_id(prefix, static_cast<unsigned long long>(now), random.data());
}

namespace {

// As the caller's shell would find it.
Result<std::string> program_path(const std::string& name) {
  std::vector<std::string> candidates;
  if (name.find('/') != std::string::npos) {
    std::error_code error;
    candidates.push_back(std::filesystem::absolute(name, error).string());
  } else {
    const char* path = std::getenv("PATH");
    std::string_view rest(path == nullptr ? "/usr/bin:/bin" : path);
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(':'), rest.size());
      candidates.push_back(std::string(rest.substr(0, end)) + "/" + name);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  for (const std::string& one : candidates) {
    if (one.starts_with('/') && ::access(one.c_str(), X_OK) == 0) return one;
  }
  return fail(ErrorCode::not_found,
              "There is no program \"" + name + "\" for --wrapper; install it or give its path.");
}

}  // namespace

Result<void> set_wrapper(json::object& params, const Parsed& parsed) {
  const auto text = parsed.find("--wrapper");
  if (!text) return {};
  auto words = shell_split(*text);
  if (!words) {
    return fail(ErrorCode::bad_request,
                "--wrapper needs a program and its arguments, quoted as for a shell; '' takes a "
                "session's away.");
  }
  if (!words->empty()) {
    TRY_ASSIGN(words->front(), program_path(words->front()));
  }
  json::array out;
  for (const std::string& word : *words) out.push_back(json::value(edge::valid_utf8(word)));
  params["wrapper"] = std::move(out);
  return {};
}

}  // namespace waybill::cli
