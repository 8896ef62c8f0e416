#include "supervise/records.h"

#include <boost/json.hpp>
#include <limits>

#include "base/crc32.h"
#include "shim/files.h"

namespace waybill::supervise {
namespace {

namespace json = boost::json;

// One record's fields. The first one that is missing or of another type makes the record torn.
class Fields {
 public:
  explicit Fields(const json::object& object) : object_(&object) {}

  bool good() const { return good_; }
  void spoil() { good_ = false; }

  const json::value* find(std::string_view key) {
    const json::value* value = object_->if_contains(key);
    if (value == nullptr) good_ = false;
    return value;
  }

  std::string text(std::string_view key) {
    const json::value* value = find(key);
    if (value == nullptr || !value->is_string()) return spoiled(std::string());
    return std::string(value->get_string());
  }

  // A member that older supervisors do not write.
  std::string text_or_none(std::string_view key) {
    return object_->if_contains(key) == nullptr ? std::string() : text(key);
  }

  std::uint64_t number_or_none(std::string_view key) {
    return object_->if_contains(key) == nullptr ? 0 : number(key);
  }

  bool boolean(std::string_view key) {
    const json::value* value = find(key);
    if (value == nullptr || !value->is_bool()) return spoiled(false);
    return value->get_bool();
  }

  std::uint64_t number(std::string_view key) {
    const json::value* value = find(key);
    if (value == nullptr) return 0;
    if (value->is_uint64()) return value->get_uint64();
    if (value->is_int64() && value->get_int64() >= 0) {
      return static_cast<std::uint64_t>(value->get_int64());
    }
    return spoiled(std::uint64_t{0});
  }

  std::int64_t integer(std::string_view key) {
    const json::value* value = find(key);
    if (value == nullptr || !value->is_int64()) return spoiled(std::int64_t{0});
    return value->get_int64();
  }

  int small(std::string_view key) {
    const std::int64_t value = integer(key);
    if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) {
      return spoiled(0);
    }
    return static_cast<int>(value);
  }

  std::optional<int> optional_small(std::string_view key) {
    const json::value* value = find(key);
    if (value == nullptr || value->is_null()) return std::nullopt;
    return small(key);
  }

  const json::array* list(std::string_view key) {
    const json::value* value = find(key);
    if (value == nullptr || !value->is_array()) return spoiled<const json::array*>(nullptr);
    return &value->get_array();
  }

  const json::object* object(std::string_view key) {
    const json::value* value = find(key);
    if (value == nullptr || !value->is_object()) return spoiled<const json::object*>(nullptr);
    return &value->get_object();
  }

  template <class Enum>
  Enum word(std::string_view key) {
    const std::optional<Enum> found = core::from_word<Enum>(text(key));
    if (!found) return spoiled(Enum{});
    return *found;
  }

 private:
  template <class T>
  T spoiled(T value) {
    good_ = false;
    return value;
  }

  const json::object* object_;
  bool good_ = true;
};

constexpr std::string_view kCrcKey = ",\"crc\":\"";
constexpr std::size_t kTrailer = 8 + 8 + 3;  // ,"crc":" then the digits, then "} and a newline

bool checksum_holds(std::string_view text) {
  if (text.size() <= kTrailer || text.substr(text.size() - 3) != "\"}\n") return false;
  const std::size_t body = text.size() - kTrailer;
  if (text.substr(body, kCrcKey.size()) != kCrcKey) return false;
  char digits[8];
  crc32_hex(crc32(text.data(), body), digits);
  return text.substr(body + kCrcKey.size(), 8) == std::string_view(digits, 8);
}

// Checks what all records share, then lets `read` take the fields of this one.
template <class T, class ReadFields>
Read<T> parse_record(std::string_view text, std::string_view job, ReadFields read) {
  Read<T> result;
  result.state = RecordState::torn;
  if (text.size() > shim::kRecordBytesMax || !checksum_holds(text)) return result;
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = 8;
  const json::value value = json::parse(text, error, {}, options);
  if (error || !value.is_object()) return result;
  Fields fields(value.get_object());
  if (fields.integer("protocol") != shim::kProtocol || fields.text("job") != job) return result;
  read(fields, result.value);
  if (fields.good()) result.state = RecordState::good;
  return result;
}

bool by_daemon(Fields& fields) {
  const std::string word = fields.text("supervisor");
  if (word != "shim" && word != "lost") fields.spoil();
  return word == "lost";
}

std::vector<core::ProcessNote> read_notes(Fields& fields, std::string_view key,
                                          std::vector<ProcessIdentity>* ids = nullptr) {
  std::vector<core::ProcessNote> notes;
  const json::array* list = fields.list(key);
  if (list == nullptr) return notes;
  for (const json::value& entry : *list) {
    if (!entry.is_object()) {
      fields.spoil();
      break;
    }
    Fields note(entry.get_object());
    notes.push_back(core::ProcessNote{note.small("pid"), note.text("comm"), note.text("cmdline"),
                                      note.text("state"), note.boolean("holds_output"),
                                      note.text_or_none("wchan"), note.text_or_none("reason")});
    if (ids != nullptr) ids->push_back({note.small("pid"), note.number_or_none("start")});
    if (!note.good()) fields.spoil();
  }
  return notes;
}

void read_exit(Fields& fields, core::Exit& exit) {
  exit.kind = fields.word<core::ExitKind>("kind");
  exit.code = fields.optional_small("code");
  exit.signal = fields.optional_small("signal");
  exit.core = fields.boolean("core");
  exit.step = fields.text("step");
  exit.error = fields.optional_small("errno");
  exit.reason = fields.text("reason");
  const bool fits = exit.code.has_value() == (exit.kind == core::ExitKind::exited) &&
                    exit.signal.has_value() == (exit.kind == core::ExitKind::signaled) &&
                    exit.error.has_value() == (exit.kind == core::ExitKind::not_started);
  if (!fits) fields.spoil();
}

void read_output(Fields& fields, core::OutputFacts& output) {
  const json::object* object = fields.object("output");
  if (object == nullptr) return;
  Fields inner(*object);
  output.bytes = inner.number("bytes");
  output.kept_bytes = inner.number("kept_bytes");
  output.digest = inner.text("digest");
  output.digest_reason = inner.text("digest_reason");
  output.incomplete = inner.text("incomplete");
  if (const json::array* gaps = inner.list("gaps")) {
    std::uint64_t last = 0;
    for (const json::value& entry : *gaps) {
      const json::array* pair = entry.if_array();
      if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_int64() ||
          !(*pair)[1].is_int64()) {
        inner.spoil();
        break;
      }
      const core::Gap gap{static_cast<std::uint64_t>((*pair)[0].get_int64()),
                          static_cast<std::uint64_t>((*pair)[1].get_int64())};
      if (gap.from < last || gap.to <= gap.from || gap.to > output.bytes) inner.spoil();
      last = gap.to;
      output.gaps.push_back(gap);
    }
  }
  if (!inner.good()) fields.spoil();
}

}  // namespace

Read<StartRecord> parse_start(std::string_view text, std::string_view job) {
  return parse_record<StartRecord>(text, job, [](Fields& fields, StartRecord& start) {
    start.shim = {fields.small("shim_pid"), fields.number("shim_start")};
    start.main = {fields.small("main_pid"), fields.number("main_start")};
    start.session = fields.small("session");
    start.generation = {fields.text("boot_id"), fields.number("pidns"),
                        fields.number("init_start")};
    start.cgroup = fields.text_or_none("cgroup");
    start.cgroupns = fields.number_or_none("cgroupns");
    start.captured = fields.boolean("captured");
    start.started_at = WallTime(Millis(fields.integer("started_at_ms")));
    start.started_mono_ns = fields.integer("started_mono_ns");
  });
}

Read<ExitRecord> parse_exit(std::string_view text, std::string_view job) {
  return parse_record<ExitRecord>(text, job, [](Fields& fields, ExitRecord& record) {
    record.by_daemon = by_daemon(fields);
    read_exit(fields, record.exit);
    record.ended_by = fields.word<core::EndedBy>("ended_by");
    record.oom = fields.boolean("oom");
    record.ended_at = WallTime(Millis(fields.integer("ended_at_ms")));
    const json::value* duration = fields.find("duration_ms");
    if (duration != nullptr && !duration->is_null()) {
      record.duration = Millis(fields.integer("duration_ms"));
    }
    const json::value* cpu = fields.find("cpu_ms");
    record.usage_known = cpu != nullptr && !cpu->is_null();
    if (record.usage_known) {
      record.usage = {fields.number("cpu_ms"), fields.number("max_rss_bytes")};
    }
  });
}

Read<FinalRecord> parse_final(std::string_view text, std::string_view job) {
  return parse_record<FinalRecord>(text, job, [](Fields& fields, FinalRecord& record) {
    record.by_daemon = by_daemon(fields);
    record.proof = fields.word<core::Proof>("proof");
    read_output(fields, record.output);
    record.keep = fields.word<core::LeftoverPolicy>("policy") == core::LeftoverPolicy::keep;
    record.leftovers = read_notes(fields, "leftovers", &record.leftover_ids);
  });
}

Read<LeftoverRecord> parse_leftovers(std::string_view text, std::string_view job) {
  return parse_record<LeftoverRecord>(text, job, [](Fields& fields, LeftoverRecord& record) {
    record.by_daemon = by_daemon(fields);
    record.kept = fields.boolean("kept");
    record.survived = read_notes(fields, "survived", &record.survived_ids);
  });
}

Read<SurvivorRecord> parse_survivors(std::string_view text, std::string_view job) {
  return parse_record<SurvivorRecord>(text, job, [](Fields& fields, SurvivorRecord& record) {
    record.stuck = fields.boolean("stuck");
    record.survivors = read_notes(fields, "survivors");
  });
}

Read<StopRequestRecord> parse_stop_request(std::string_view text, std::string_view job) {
  return parse_record<StopRequestRecord>(text, job, [](Fields& fields, StopRequestRecord& record) {
    record.at = WallTime(Millis(fields.integer("at_ms")));
    record.actor = fields.text("actor");
    record.reason = fields.text("reason");
  });
}

}  // namespace waybill::supervise
