#include "cli/identity.h"

#include <unistd.h>

#include <boost/json.hpp>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <utility>

namespace waybill::cli {
namespace {

namespace json = boost::json;

// Field 22 of /proc/PID/stat, counted after the name, which may hold blanks and brackets; "0" when
// there is no such process.
std::string start_time_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::size_t at = text.rfind(')');
  if (at == std::string::npos) return "0";
  at += 2;  // the third field
  for (int field = 3; field < 22 && at != std::string::npos; ++field) {
    at = text.find(' ', at);
    if (at != std::string::npos) ++at;
  }
  if (at == std::string::npos) return "0";
  return text.substr(at, text.find(' ', at) - at);
}

std::string process_name(int pid) {
  return "mcp-" + std::to_string(pid) + "-" + start_time_of(pid);
}

// Attaches once per process, session and key, so that the lease lasts as long as the host.
Result<void> attach_once(Client& client, const Context& context, const Identity& identity) {
  static std::mutex mutex;
  static std::set<std::pair<std::string, std::string>> attached;
  const std::pair<std::string, std::string> key{identity.session, identity.host_key};
  const std::lock_guard lock(mutex);
  if (attached.contains(key)) return {};
  json::object params;
  if (!context.tenant.empty()) params["tenant"] = context.tenant;
  params["session"] = identity.session;
  params["host_key"] = identity.host_key;
  params["host_pid"] = identity.host_pid;
  params["join"] = true;  // never takes a session from another host that is there
  TRY(client.call("session.attach", params));
  attached.insert(key);
  return {};
}

}  // namespace

Result<Identity> identify(Client& client, const Context& context, const json::object& /*meta*/,
                          std::string_view client_name) {
  Identity identity;
  identity.client = std::string(client_name);
  identity.host_pid = ::getppid();
  static const std::string parent = process_name(::getppid());
  static const std::string self = process_name(::getpid());
  identity.host_key = context.host_key.empty() ? parent : context.host_key;
  identity.session = context.session.empty() ? self : context.session;
  TRY(attach_once(client, context, identity));
  return identity;
}

}  // namespace waybill::cli
