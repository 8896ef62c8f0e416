#include "cli/view.h"

#include <array>
#include <cstdio>

#include "cli/answer.h"
#include "cli/outcome.h"
#include "cli/output.h"
#include "cli/quote.h"

namespace waybill::cli {
namespace {

constexpr std::size_t kListCommandMax = 60;

Colour colour_of(std::string_view status, bool stopping) {
  if (status == "succeeded") return Colour::green;
  if (status == "failed") return Colour::red;
  if (status == "stopped" || stopping) return Colour::yellow;
  if (status == "queued") return Colour::grey;
  return Colour::none;
}

std::string status_of(const json::object& job) {
  const std::string status = text_of(job, "status");
  const bool stopping = flag_of(job, "stopping");
  return coloured(colour_of(status, stopping), stopping ? "stopping" : status);
}

std::string title_of(const json::object& job) {
  const std::string label = text_of(job, "label");
  std::string title = safe_line(label.empty() ? text_of(job, "command_preview") : label);
  if (title.size() > kListCommandMax) {
    std::size_t cut = kListCommandMax - 3;
    while (cut > 0 && (static_cast<unsigned char>(title[cut]) & 0xC0U) == 0x80) --cut;
    title = title.substr(0, cut) + "...";
  }
  return title;
}

std::string duration_of(const json::object& job) {
  const auto millis = count_of(job, "duration_ms");
  return millis ? human_duration(*millis) : "-";
}

void add_line(std::string& out, std::string_view name, const std::string& value) {
  if (value.empty()) return;
  std::string head(name);
  head.resize(13, ' ');
  out += coloured(Colour::grey, head) + value + "\n";
}

std::string processes_of(const json::array& notes) {
  std::string out;
  for (const json::value& note : notes) {
    if (!note.is_object()) continue;
    const json::object& object = note.get_object();
    out += (out.empty() ? "" : ", ") + std::to_string(count_of(object, "pid").value_or(0)) + " " +
           safe_line(text_of(object, "comm"));
    if (const std::string why = text_of(object, "reason"); !why.empty()) {
      out += " (" + safe_line(why) + ")";
    }
  }
  return out;
}

std::string output_of(const json::object& job) {
  const json::object& output = object_of(job, "output");
  const std::uint64_t bytes = count_of(output, "bytes").value_or(0);
  const std::uint64_t kept = count_of(output, "kept_bytes").value_or(bytes);
  std::string out = human_size(bytes);
  if (const std::string at = text_of(output, "expired_at"); !at.empty()) {
    out += ", expired at " + at;
  } else if (kept < bytes) {
    out += ", " + human_size(kept) + " kept";
  }
  if (const std::string why = text_of(output, "incomplete"); !why.empty()) {
    out += ", may be incomplete: " + safe_line(why);
  }
  return out;
}

void add_stages(std::string& out, const json::object& job) {
  std::size_t number = 0;
  for (const json::value& item : array_of(job, "stages")) {
    if (!item.is_object()) continue;
    const json::object& stage = item.get_object();
    const auto code = int_of(object_of(stage, "exit"), "code");
    add_line(out, "stage " + std::to_string(++number),
             (code ? std::to_string(*code) : "?") + "  " + text_of(stage, "finding") + "  " +
                 safe_line(text_of(stage, "command")));
  }
}

void add_earlier(std::string& out, const json::object& job) {
  const json::object& earlier = object_of(job, "earlier");
  for (const json::value& item : array_of(earlier, "pipelines")) {
    if (!item.is_object()) continue;
    std::string text;
    for (const json::value& status : array_of(item.get_object(), "statuses")) {
      if (!status.is_int64()) continue;
      text += (text.empty() ? "" : ", ") + std::to_string(status.get_int64());
    }
    add_line(out, "earlier", text + "  " + text_of(item.get_object(), "finding"));
  }
  if (flag_of(earlier, "truncated")) add_line(out, "earlier", "not watched to the end");
}

void add_receipts(std::string& out, const json::object& job) {
  for (const json::value& item : array_of(job, "receipts")) {
    if (!item.is_object()) continue;
    const json::object& receipt = item.get_object();
    std::string text = text_of(receipt, "at") + "  " + text_of(receipt, "name");
    if (const std::string cause = text_of(receipt, "cause"); !cause.empty()) text += "  " + cause;
    if (const std::string actor = text_of(receipt, "actor"); !actor.empty()) {
      text += "  by " + safe_line(actor);
    }
    if (const std::string reason = text_of(receipt, "reason"); !reason.empty()) {
      text += "  " + safe_line(reason);
    }
    add_line(out, "receipt", text);
  }
}

void add_events(std::string& out, const json::object& job) {
  for (const json::value& item : array_of(job, "events")) {
    if (!item.is_object()) continue;
    const json::object& event = item.get_object();
    std::string text = text_of(event, "id") + "  " + text_of(event, "state");
    if (const std::string as = text_of(event, "acked_as"); !as.empty()) text += " as " + as;
    if (const std::string as = text_of(event, "dropped_as"); !as.empty()) text += " as " + as;
    if (const std::string why = text_of(event, "withheld"); !why.empty()) {
      text += ", withheld: " + why;
    }
    if (const auto tries = count_of(event, "tries"); tries.value_or(0) > 0) {
      text += ", came back " + std::to_string(*tries) +
              " times: " + safe_line(text_of(event, "last_error"));
    }
    add_line(out, "event", text);
  }
}

}  // namespace

std::string human_duration(std::uint64_t millis) {
  std::array<char, 64> text{};
  const unsigned long long seconds = millis / 1000;
  if (millis < 1000) {
    std::snprintf(text.data(), text.size(), "%llums", static_cast<unsigned long long>(millis));
  } else if (seconds < 60) {
    std::snprintf(text.data(), text.size(), "%.1fs", static_cast<double>(millis) / 1000.0);
  } else if (seconds < 3600) {
    std::snprintf(text.data(), text.size(), "%llum%02llus", seconds / 60, seconds % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%lluh%02llum", seconds / 3600, seconds % 3600 / 60);
  }
  return text.data();
}

std::string human_size(std::uint64_t bytes) {
  static constexpr std::array<const char*, 4> kUnits{"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", value, kUnits.at(unit));
  return text.data();
}

std::string job_line(const json::object& job) {
  std::string out = text_of(job, "id") + "  " + status_of(job);
  if (const std::string ending = ending_of(job); !ending.empty()) out += "  " + safe_line(ending);
  if (const auto position = count_of(job, "queue_position")) {
    out += "  (number " + std::to_string(*position) + " in the queue)";
  }
  return out + "  " + coloured(Colour::grey, title_of(job));
}

std::string job_page(const json::object& job) {
  std::string out;
  add_line(out, "job", coloured(Colour::bold, text_of(job, "id")));
  add_line(out, "label", safe_line(text_of(job, "label")));
  add_line(out, "status", status_of(job));
  add_line(out, "ending", safe_line(ending_of(job)));
  add_stages(out, job);
  add_earlier(out, job);
  add_line(out, "cause", text_of(job, "cause"));
  add_line(out, "by", safe_line(text_of(job, "actor")));
  add_line(out, "reason", safe_line(text_of(job, "reason")));
  add_line(out, "waiting", safe_line(text_of(job, "waiting_because")));
  add_line(out, "command", safe_line(text_of(job, "command_preview")));
  add_line(out, "directory", safe_line(text_of(job, "cwd")));
  std::string wrapper;
  for (const json::value& word : array_of(job, "wrapper")) {
    if (word.is_string())
      wrapper += (wrapper.empty() ? "" : " ") + shell_quote(std::string(word.get_string()));
  }
  add_line(out, "run through", safe_line(wrapper));
  add_line(out, "session", text_of(job, "session"));
  add_line(out, "turn", text_of(job, "turn"));
  add_line(out, "created", text_of(job, "created_at"));
  add_line(out, "started", text_of(job, "started_at"));
  add_line(out, "finished", text_of(job, "finished_at"));
  if (count_of(job, "duration_ms")) add_line(out, "took", duration_of(job));
  add_line(out, "output", output_of(job));
  const json::object& usage = object_of(job, "usage");
  if (const auto cpu = count_of(usage, "cpu_ms")) {
    add_line(out, "used",
             human_duration(*cpu) + " CPU, " +
                 human_size(count_of(usage, "max_rss_bytes").value_or(0)) + " memory");
  }
  add_line(out, "proof", text_of(job, "proof"));
  add_line(out, "not yet gone", processes_of(array_of(job, "survivors")));
  add_line(out, "leftovers", processes_of(array_of(job, "leftovers")));
  add_receipts(out, job);
  add_events(out, job);
  return out;
}

std::string job_table(const json::array& jobs) {
  if (jobs.empty()) return "No jobs.\n";
  Table table;
  table.add({coloured(Colour::grey, "JOB"), coloured(Colour::grey, "STATUS"),
             coloured(Colour::grey, "VERDICT"), coloured(Colour::grey, "CREATED"),
             coloured(Colour::grey, "TOOK"), coloured(Colour::grey, "COMMAND")});
  for (const json::value& item : jobs) {
    if (!item.is_object()) continue;
    const json::object& job = item.get_object();
    const std::string verdict = text_of(job, "verdict");
    table.add({text_of(job, "id"), status_of(job), verdict.empty() ? "-" : verdict,
               text_of(job, "created_at").substr(0, 19) + "Z", duration_of(job), title_of(job)});
  }
  return table.text();
}

std::string session_page(const json::object& session) {
  std::string out;
  const json::object& lease = object_of(session, "lease");
  add_line(out, "session", coloured(Colour::bold, text_of(session, "session")));
  add_line(out, "phase", text_of(session, "phase"));
  std::string turn = text_of(session, "turn");
  for (const json::value& item : array_of(session, "turns")) {
    if (!item.is_object()) continue;
    turn += "  " + text_of(item.get_object(), "state");
    if (flag_of(item.get_object(), "stopped")) turn += ", stopped";
  }
  add_line(out, "turn", turn);
  add_line(out, "fence", std::to_string(count_of(session, "fence_number").value_or(0)));
  add_line(out, "revision", std::to_string(count_of(session, "revision").value_or(0)));
  std::string host = flag_of(lease, "live") ? "attached" : "none";
  if (const auto pid = count_of(lease, "host_pid")) host += ", process " + std::to_string(*pid);
  add_line(out, "host", host);
  add_line(out, "jobs",
           std::to_string(count_of(session, "running_jobs").value_or(0)) + " running, " +
               std::to_string(count_of(session, "queued_jobs").value_or(0)) + " queued");
  add_line(out, "undelivered",
           std::to_string(count_of(session, "undelivered").value_or(0)) + " (" +
               std::to_string(count_of(session, "withheld").value_or(0)) + " withheld)");
  const std::string client = text_of(session, "client");
  if (client.empty()) return out;
  add_line(out, "client",
           client + ", went on " + std::to_string(count_of(session, "wakes").value_or(0)) +
               " times since a user spoke");
  return out;
}

std::string session_table(const json::array& sessions) {
  if (sessions.empty()) return "No sessions.\n";
  Table table;
  table.add({coloured(Colour::grey, "SESSION"), coloured(Colour::grey, "PHASE"),
             coloured(Colour::grey, "RUNNING"), coloured(Colour::grey, "QUEUED"),
             coloured(Colour::grey, "UNDELIVERED")});
  for (const json::value& item : sessions) {
    if (!item.is_object()) continue;
    const json::object& session = item.get_object();
    table.add({text_of(session, "session"), text_of(session, "phase"),
               std::to_string(count_of(session, "running_jobs").value_or(0)),
               std::to_string(count_of(session, "queued_jobs").value_or(0)),
               std::to_string(count_of(session, "undelivered").value_or(0))});
  }
  return table.text();
}

}  // namespace waybill::cli
