#include "cli/hook_groups.h"

#include <algorithm>
#include <utility>

#include "cli/answer.h"
#include "edge/json_edit.h"

namespace waybill::cli {
namespace {

using edge::JsonKind;
using edge::JsonPath;
using edge::JsonText;

constexpr int kWakeSeconds = 604800;  // a week; armed anew at the end of every turn
constexpr const char* kWakeHook = "Wake";
constexpr const char* kWakeSummary = "Waybill: background work has ended";  // the person sees it
constexpr std::string_view kResumeFlag = " --resume-when-closed";

json::object group_of(ClientId client, const HookEvent& event, const Wiring& wiring) {
  std::string command = hook_command(wiring, client, event.name);
  if (event.resumes && wiring.resume_when_closed) command += kResumeFlag;
  json::array hooks;
  hooks.push_back(
      json::object{{"type", "command"}, {"command", command}, {"timeout", kHookSeconds}});
  if (event.wakes) {
    hooks.push_back(json::object{{"type", "command"},
                                 {"command", hook_command(wiring, client, kWakeHook)},
                                 {"asyncRewake", true},
                                 {"rewakeSummary", kWakeSummary},
                                 {"timeout", kWakeSeconds}});
  }
  json::object out;
  if (event.matcher != nullptr) out["matcher"] = event.matcher;
  out["hooks"] = std::move(hooks);
  return out;
}

// A matcher group of an event, and which of its hooks are ours.
struct Group {
  std::size_t index = 0;
  std::size_t hooks = 0;
  std::vector<FoundHook> ours;

  bool all_ours() const { return !ours.empty() && ours.size() == hooks; }
};

std::string string_at(const JsonText& document, JsonPath path, const char* key) {
  path.emplace_back(key);
  const std::optional<json::value> value = document.parsed(path);
  return value && value->is_string() ? std::string(value->get_string()) : "";
}

Group group_at(const JsonText& document, ClientId client, const std::string& event,
               std::size_t index) {
  Group out;
  out.index = index;
  const JsonPath group{"hooks", event, index};
  JsonPath hooks = group;
  hooks.emplace_back("hooks");
  if (document.kind(hooks) != JsonKind::array) return out;
  out.hooks = document.count(hooks);
  for (std::size_t i = 0; i < out.hooks; ++i) {
    JsonPath hook = hooks;
    hook.emplace_back(i);
    std::string command = string_at(document, hook, "command");
    std::optional<OurHook> ours = our_hook(command, client);
    if (!ours) continue;
    out.ours.push_back({event, index, i, string_at(document, group, "matcher"), std::move(command),
                        std::move(*ours)});
  }
  return out;
}

std::vector<Group> groups_with_ours(const JsonText& document, ClientId client,
                                    const std::string& event) {
  std::vector<Group> out;
  const JsonPath path{"hooks", event};
  if (document.kind(path) != JsonKind::array) return out;
  const std::size_t count = document.count(path);
  for (std::size_t i = 0; i < count; ++i) {
    if (Group group = group_at(document, client, event, i); !group.ours.empty()) {
      out.push_back(std::move(group));
    }
  }
  return out;
}

// Takes our hooks out of these groups, from behind so that the places stay right. False: the
// document is to go.
bool take_out(JsonText& document, const std::string& event, const std::vector<Group>& groups) {
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    const JsonPath path{"hooks", event, group->index};
    if (group->all_ours()) {
      if (!document.remove(path)) return false;
      continue;
    }
    for (auto hook = group->ours.rbegin(); hook != group->ours.rend(); ++hook) {
      JsonPath inner = path;
      inner.emplace_back("hooks");
      inner.emplace_back(hook->index);
      document.remove(inner);
    }
  }
  return true;
}

// One group of ours per event, where it was or behind the others.
Result<void> put_event(JsonText& document, ClientId client, const HookEvent& event,
                       const Wiring& wiring) {
  const json::value wanted = group_of(client, event, wiring);
  std::vector<Group> groups = groups_with_ours(document, client, event.name);
  for (auto group = groups.begin(); group != groups.end(); ++group) {
    if (!group->all_ours()) continue;
    const JsonPath path{"hooks", event.name, group->index};
    if (document.parsed(path) != wanted) TRY(document.set(path, wanted));
    groups.erase(group);
    take_out(document, event.name, groups);
    return {};
  }
  TRY(document.push({"hooks", event.name}, wanted));
  take_out(document, event.name, groups);
  return {};
}

bool is_wanted(const HookFile& file, const std::string& event) {
  return std::any_of(file.events.begin(), file.events.end(),
                     [&event](const HookEvent& wanted) { return event == wanted.name; });
}

Result<JsonText> document_of(const FileChange& file) {
  return file.before ? JsonText::parse(*file.before, file.path)
                     : Result<JsonText>(JsonText::fresh(file.path));
}

bool has(const std::vector<FoundHook>& hooks, const std::string& event, const std::string& verb) {
  return std::any_of(hooks.begin(), hooks.end(), [&](const FoundHook& hook) {
    return hook.event == event && hook.ours.event == verb;
  });
}

}  // namespace

Result<FileChange> plan_hooks(const HookFile& file, const Wiring& wiring) {
  TRY_ASSIGN(FileChange change, read_file(file.path));
  TRY_ASSIGN(JsonText document, document_of(change));
  for (const HookEvent& event : file.events) {
    TRY(put_event(document, file.client, event, wiring));
  }
  for (const std::string& event : document.keys({"hooks"})) {
    if (is_wanted(file, event)) continue;
    take_out(document, event, groups_with_ours(document, file.client, event));
  }
  change.after = document.text();
  return change;
}

Result<FileChange> undo_hooks(const HookFile& file) {
  TRY_ASSIGN(FileChange change, read_file(file.path));
  if (!change.before) return change;
  TRY_ASSIGN(JsonText document, JsonText::parse(*change.before, file.path));
  for (const std::string& event : document.keys({"hooks"})) {
    if (!take_out(document, event, groups_with_ours(document, file.client, event))) {
      change.after = std::nullopt;
      return change;
    }
  }
  change.after = document.text();
  return change;
}

Result<FoundHooks> find_hooks(const HookFile& file) {
  FoundHooks out;
  TRY_ASSIGN(const FileChange change, read_file(file.path));
  TRY_ASSIGN(const JsonText document, document_of(change));
  for (const std::string& event : document.keys({"hooks"})) {
    for (Group& group : groups_with_ours(document, file.client, event)) {
      for (FoundHook& hook : group.ours) {
        if (hook.ours.flags.find(kResumeFlag) != std::string::npos) out.resume_when_closed = true;
        out.hooks.push_back(std::move(hook));
      }
    }
  }
  out.complete = true;
  for (const HookEvent& event : file.events) {
    out.complete = out.complete && has(out.hooks, event.name, event.name) &&
                   (!event.wakes || has(out.hooks, event.name, kWakeHook));
  }
  return out;
}

}  // namespace waybill::cli
