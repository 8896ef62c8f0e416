#include "store/json_columns.h"

#include <boost/json.hpp>

namespace waybill::store {
namespace {

namespace json = boost::json;

Error corrupt(std::string_view what) {
  return Error{ErrorCode::state_corrupt,
               "A stored " + std::string(what) + " does not parse; the row was left as it is."};
}

// Reads members with their types checked; the first that does not fit makes the whole object
// corrupt.
class Reader {
 public:
  explicit Reader(const json::value& value) : object_(value.if_object()) {}

  bool ok() const { return object_ != nullptr && ok_; }
  const json::value* at(std::string_view key) {
    const json::value* found = object_ == nullptr ? nullptr : object_->if_contains(key);
    ok_ = ok_ && found != nullptr;
    return found;
  }
  std::string text(std::string_view key) {
    const json::value* value = at(key);
    if (value == nullptr || !value->is_string()) {
      ok_ = false;
      return {};
    }
    return std::string(value->get_string());
  }
  // A member that is left out when it is empty.
  std::string text_or_none(std::string_view key) {
    const bool there = object_ != nullptr && object_->contains(key);
    return there ? text(key) : std::string();
  }
  std::int64_t integer(std::string_view key) {
    const json::value* value = at(key);
    if (value == nullptr || !value->is_number()) {
      ok_ = false;
      return 0;
    }
    boost::system::error_code error;
    const auto number = value->to_number<std::int64_t>(error);
    ok_ = ok_ && !error;
    return number;
  }
  std::optional<int> maybe_integer(std::string_view key) {
    const json::value* value = at(key);
    if (value == nullptr || value->is_null()) return std::nullopt;
    return static_cast<int>(integer(key));
  }
  bool flag(std::string_view key) {
    const json::value* value = at(key);
    if (value == nullptr || !value->is_bool()) {
      ok_ = false;
      return false;
    }
    return value->get_bool();
  }
  template <class Enum>
  Enum word(std::string_view key) {
    const auto value = core::from_word<Enum>(text(key));
    ok_ = ok_ && value.has_value();
    return value.value_or(Enum{});
  }
  const json::array& array(std::string_view key) {
    static const json::array empty;
    const json::value* value = at(key);
    if (value == nullptr || !value->is_array()) {
      ok_ = false;
      return empty;
    }
    return value->get_array();
  }

 private:
  const json::object* object_;
  bool ok_ = true;
};

json::value parse(std::string_view text) {
  boost::system::error_code error;
  json::value value = json::parse(json::string_view(text.data(), text.size()), error);
  if (error) return nullptr;
  return value;
}

template <class T>
json::value maybe(const std::optional<T>& value) {
  if (!value) return nullptr;
  return json::value(*value);
}

json::object exit_object(const core::Exit& exit) {
  json::object object;
  object["kind"] = core::to_word(exit.kind);
  object["code"] = maybe(exit.code);
  object["signal"] = maybe(exit.signal);
  object["core"] = exit.core;
  object["step"] = exit.step;
  object["errno"] = maybe(exit.error);
  object["reason"] = exit.reason;
  return object;
}

bool read_exit(const json::value& value, core::Exit& exit) {
  Reader reader(value);
  exit.kind = reader.word<core::ExitKind>("kind");
  exit.code = reader.maybe_integer("code");
  exit.signal = reader.maybe_integer("signal");
  exit.core = reader.flag("core");
  exit.step = reader.text("step");
  exit.error = reader.maybe_integer("errno");
  exit.reason = reader.text("reason");
  const bool fits = (exit.kind == core::ExitKind::exited) == exit.code.has_value() &&
                    (exit.kind == core::ExitKind::signaled) == exit.signal.has_value();
  return reader.ok() && fits;
}

json::object history_object(const core::Stages& stages) {
  json::array pipelines;
  for (const core::EarlierPipeline& one : stages.earlier) {
    json::object object;
    object["statuses"] = json::array(one.statuses.begin(), one.statuses.end());
    object["finding"] = core::to_word(one.finding);
    pipelines.push_back(std::move(object));
  }
  json::object object;
  object["claimed"] = stages.claims_earlier;
  object["truncated"] = stages.history_truncated;
  object["pipelines"] = std::move(pipelines);
  return object;
}

bool read_history(const json::value& value, core::Stages& stages) {
  Reader reader(value);
  stages.history_kept = true;
  stages.claims_earlier = reader.flag("claimed");
  stages.history_truncated = reader.flag("truncated");
  for (const json::value& item : reader.array("pipelines")) {
    Reader one(item);
    core::EarlierPipeline pipeline;
    pipeline.finding = one.word<core::EarlierFinding>("finding");
    for (const json::value& status : one.array("statuses")) {
      if (!status.is_int64()) return false;
      pipeline.statuses.push_back(static_cast<int>(status.get_int64()));
    }
    if (!one.ok()) return false;
    stages.earlier.push_back(std::move(pipeline));
  }
  return reader.ok();
}

}  // namespace

std::string encode_exit(const core::Exit& exit) { return json::serialize(exit_object(exit)); }

Result<core::Exit> decode_exit(std::string_view text) {
  core::Exit exit;
  if (!read_exit(parse(text), exit)) return fail(corrupt("exit"));
  return exit;
}

std::string encode_stages(const core::Stages& stages) {
  json::array claimed;
  for (const core::Stage& stage : stages.claimed) {
    json::object object;
    object["command"] = stage.command;
    object["exit"] = exit_object(stage.exit);
    object["finding"] = core::to_word(stage.finding);
    claimed.push_back(std::move(object));
  }
  json::object object;
  object["claimed"] = std::move(claimed);
  object["reason"] = stages.reason ? json::value(core::to_word(*stages.reason)) : json::value("");
  if (stages.history_kept) object["history"] = history_object(stages);
  return json::serialize(object);
}

Result<core::Stages> decode_stages(std::string_view text) {
  const json::value value = parse(text);
  Reader reader(value);
  core::Stages stages;
  for (const json::value& item : reader.array("claimed")) {
    Reader stage_reader(item);
    core::Stage stage;
    stage.command = stage_reader.text("command");
    stage.finding = stage_reader.word<core::StageFinding>("finding");
    const json::value* exit = stage_reader.at("exit");
    if (exit == nullptr || !stage_reader.ok() || !read_exit(*exit, stage.exit)) {
      return fail(corrupt("list of stages"));
    }
    stages.claimed.push_back(std::move(stage));
  }
  const std::string reason = reader.text("reason");
  if (!reason.empty()) {
    stages.reason = core::from_word<core::StagesReason>(reason);
    if (!stages.reason) return fail(corrupt("list of stages"));
  }
  // Rows of versions that kept no history have none.
  const json::object* object = value.if_object();
  const json::value* history = object == nullptr ? nullptr : object->if_contains("history");
  if (!reader.ok() || (history != nullptr && !read_history(*history, stages)))
    return fail(corrupt("list of stages"));
  return stages;
}

std::string encode_output(const core::OutputFacts& output) {
  json::array gaps;
  for (const core::Gap& gap : output.gaps) gaps.push_back(json::array{gap.from, gap.to});
  json::object object;
  object["bytes"] = output.bytes;
  object["kept_bytes"] = output.kept_bytes;
  object["gaps"] = std::move(gaps);
  object["digest"] = output.digest;
  object["digest_reason"] = output.digest_reason;
  object["incomplete"] = output.incomplete;
  return json::serialize(object);
}

Result<core::OutputFacts> decode_output(std::string_view text) {
  const json::value value = parse(text);
  Reader reader(value);
  core::OutputFacts output;
  output.bytes = static_cast<std::uint64_t>(reader.integer("bytes"));
  output.kept_bytes = static_cast<std::uint64_t>(reader.integer("kept_bytes"));
  output.digest = reader.text("digest");
  output.digest_reason = reader.text("digest_reason");
  output.incomplete = reader.text("incomplete");
  for (const json::value& item : reader.array("gaps")) {
    const json::array* pair = item.if_array();
    if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_number() ||
        !(*pair)[1].is_number()) {
      return fail(corrupt("list of gaps"));
    }
    output.gaps.push_back(
        {(*pair)[0].to_number<std::uint64_t>(), (*pair)[1].to_number<std::uint64_t>()});
  }
  if (!reader.ok()) return fail(corrupt("output record"));
  return output;
}

std::string encode_usage(const core::UsageFacts& usage) {
  json::object object;
  object["cpu_ms"] = usage.cpu_ms;
  object["max_rss_bytes"] = usage.max_rss_bytes;
  return json::serialize(object);
}

Result<core::UsageFacts> decode_usage(std::string_view text) {
  const json::value value = parse(text);
  Reader reader(value);
  core::UsageFacts usage;
  usage.cpu_ms = static_cast<std::uint64_t>(reader.integer("cpu_ms"));
  usage.max_rss_bytes = static_cast<std::uint64_t>(reader.integer("max_rss_bytes"));
  if (!reader.ok()) return fail(corrupt("usage record"));
  return usage;
}

std::string encode_notes(const std::vector<core::ProcessNote>& notes) {
  json::array array;
  for (const core::ProcessNote& note : notes) {
    json::object object;
    object["pid"] = note.pid;
    object["comm"] = note.comm;
    object["cmdline"] = note.cmdline;
    object["state"] = note.state;
    object["holds_output"] = note.holds_output;
    if (!note.wchan.empty()) object["wchan"] = note.wchan;
    if (!note.reason.empty()) object["reason"] = note.reason;
    array.push_back(std::move(object));
  }
  return json::serialize(array);
}

Result<std::vector<core::ProcessNote>> decode_notes(std::string_view text) {
  const json::value value = parse(text);
  const json::array* array = value.if_array();
  if (array == nullptr) return fail(corrupt("list of processes"));
  std::vector<core::ProcessNote> notes;
  for (const json::value& item : *array) {
    Reader reader(item);
    core::ProcessNote note;
    note.pid = static_cast<int>(reader.integer("pid"));
    note.comm = reader.text("comm");
    note.cmdline = reader.text("cmdline");
    note.state = reader.text("state");
    note.holds_output = reader.flag("holds_output");
    note.wchan = reader.text_or_none("wchan");
    note.reason = reader.text_or_none("reason");
    if (!reader.ok()) return fail(corrupt("list of processes"));
    notes.push_back(std::move(note));
  }
  return notes;
}

std::string encode_texts(const std::vector<std::string>& texts) {
  json::array array;
  for (const std::string& text : texts) array.push_back(json::value(text));
  return json::serialize(array);
}

Result<std::vector<std::string>> decode_texts(std::string_view text) {
  const json::value value = parse(text);
  const json::array* array = value.if_array();
  if (array == nullptr) return fail(corrupt("list of words"));
  std::vector<std::string> texts;
  for (const json::value& item : *array) {
    if (!item.is_string()) return fail(corrupt("list of words"));
    texts.emplace_back(item.get_string());
  }
  return texts;
}

}  // namespace waybill::store
