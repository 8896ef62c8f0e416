#include "cli/claude_stream.h"

#include <utility>

#include "base/ids.h"
#include "cli/answer.h"
#include "edge/hook.h"
#include "edge/json.h"

namespace waybill::cli {
namespace {

constexpr std::size_t kLineKept = 4 * 1024 * 1024;

std::string user_line(std::string_view text) {
  const json::object block{{"type", "text"}, {"text", json::string_view(text.data(), text.size())}};
  return edge::to_text(json::object{
             {"type", "user"},
             {"message", json::object{{"role", "user"}, {"content", json::array{block}}}},
             {"parent_tool_use_id", nullptr}}) +
         "\n";
}

}  // namespace

void LineReader::add(std::string_view bytes, const Take& take) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (line_.size() + part.size() <= kLineKept) {
      line_ += part;
    } else {
      line_ += part.substr(0, kLineKept - line_.size());
      whole_ = false;
    }
    inside_ = end == std::string_view::npos;
    if (inside_) return;
    take(line_, whole_);
    line_.clear();
    whole_ = true;
    bytes.remove_prefix(end + 1);
  }
}

ClaudeStream::ClaudeStream(Told told, Millis patience)
    : told_(std::move(told)), patience_(patience) {}

void ClaudeStream::turn_runs() {
  if (!running_) ++turn_;
  running_ = true;
}

void ClaudeStream::sent(std::string_view bytes) {
  bool by_user = false;
  from_user_.add(bytes, [this, &by_user](const std::string& text, bool whole) {
    const Result<json::value> value = edge::parse_json(text);
    const bool user =
        whole ? value && value->is_object() && text_of(value->get_object(), "type") == "user"
              : text.find(R"("user")") < 64;
    if (!user) return;
    by_user = true;
    const std::lock_guard lock(mutex_);
    turn_runs();
  });
  if (by_user && told_.user) told_.user();
}

void ClaudeStream::received(std::string_view bytes) {
  std::vector<std::string> read;
  std::string session;
  from_client_.add(bytes, [&](const std::string& text, bool whole) {
    const std::lock_guard lock(mutex_);
    line(text, whole, read, session);
  });
  if (!session.empty()) told_.session(session);
  for (const std::string& delivery : read) told_.read(delivery);
}

void ClaudeStream::line(const std::string& text, bool whole, std::vector<std::string>& read,
                        std::string& session) {
  if (!whole) {
    if (text.starts_with(R"({"type":"result")")) turn_over(read);
    return;
  }
  const Result<json::value> value = edge::parse_json(text);
  if (!value || !value->is_object()) return;
  const json::object& message = value->get_object();
  const std::string type = text_of(message, "type");
  if (type == "result") return turn_over(read);
  if (type == "system" && text_of(message, "subtype") == "init") {
    const std::string id = text_of(message, "session_id");
    const bool usable =
        !id.empty() && check_id(edge::hook_session(edge::HookClient::claude, id), "session_id");
    if (usable && id != session_) session = session_ = id;
    return turn_runs();
  }
  // A subagent's messages say nothing about what the session's own model has read.
  if (field(message, "parent_tool_use_id") != nullptr) return;
  for (Sent& one : sent_) {
    if (type == "user") one.tool_seen = true;
    if (type == "assistant" && one.tool_seen) one.model_seen = true;
  }
}

// What was sent into a turn counts as read when the model spoke after a tool's result that came
// after it; otherwise perhaps the next turn takes it, and its end is waited for.
void ClaudeStream::turn_over(std::vector<std::string>& read) {
  running_ = false;
  for (Sent& one : sent_) {
    one.over = one.over || one.began_turn || one.model_seen;
    one.began_turn = true;
    if (one.over && !one.delivery.empty()) read.push_back(one.delivery);
  }
  std::erase_if(sent_, [](const Sent& one) { return one.over && !one.delivery.empty(); });
}

std::string ClaudeStream::next_line() {
  const std::lock_guard lock(mutex_);
  if (stage_ != Stage::waits || !from_user_.at_start()) return {};
  const bool same = running_ && std::to_string(turn_) == wanted_turn_;
  if (!any_turn_ && !same) {
    outcome_ = running_ ? edge::PutOutcome::stale_turn : edge::PutOutcome::not_running;
    stage_ = Stage::done;
    changed_.notify_all();
    return {};
  }
  stage_ = Stage::writing;
  Sent one;
  one.began_turn = !running_;
  sent_.push_back(std::move(one));
  turn_runs();
  return std::move(waiting_line_);
}

void ClaudeStream::written() {
  const std::lock_guard lock(mutex_);
  if (stage_ != Stage::writing) return;
  outcome_ = edge::PutOutcome::accepted;
  stage_ = Stage::done;
  changed_.notify_all();
}

void ClaudeStream::closed() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  if (stage_ == Stage::waits || stage_ == Stage::writing) {
    outcome_ = edge::PutOutcome::unreachable;
    stage_ = Stage::done;
  }
  changed_.notify_all();
}

edge::Probe ClaudeStream::probe() {
  const std::lock_guard lock(mutex_);
  if (closed_) return {edge::ProbeState::gone, ""};
  if (running_) return {edge::ProbeState::running, std::to_string(turn_)};
  return {edge::ProbeState::idle, ""};
}

edge::PutOutcome ClaudeStream::put(const std::string& turn, bool any_turn, std::string_view text) {
  std::unique_lock lock(mutex_);
  if (closed_) return edge::PutOutcome::unreachable;
  if (stage_ != Stage::none) return edge::PutOutcome::busy;
  stage_ = Stage::waits;
  waiting_line_ = user_line(text);
  wanted_turn_ = turn;
  any_turn_ = any_turn;
  told_.line_waits();
  const auto done = [this] { return stage_ == Stage::done; };
  changed_.wait_for(lock, patience_, done);
  if (stage_ == Stage::waits) {  // somebody else's line does not end
    stage_ = Stage::none;
    return edge::PutOutcome::busy;
  }
  // Half a line cannot be taken back: the client reads on, or goes.
  changed_.wait(lock, done);
  stage_ = Stage::none;
  return outcome_;
}

edge::PutOutcome ClaudeStream::steer(const std::string& turn, std::string_view text) {
  return put(turn, false, text);
}

edge::PutOutcome ClaudeStream::wake(std::string_view text) { return put("", true, text); }

edge::PutOutcome ClaudeStream::inject(std::string_view /*text*/) { return edge::PutOutcome::busy; }

void ClaudeStream::recorded(const std::string& delivery) {
  bool read = false;
  {
    const std::lock_guard lock(mutex_);
    for (Sent& one : sent_) {
      if (!one.delivery.empty()) continue;
      one.delivery = delivery;
      read = one.over;
    }
    std::erase_if(sent_, [](const Sent& one) { return one.over && !one.delivery.empty(); });
  }
  if (read) told_.read(delivery);
}

}  // namespace waybill::cli
