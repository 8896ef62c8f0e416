#include "edge/notice_text.h"

#include "text/notice.h"
#include "text/render.h"
#include "text/utf8.h"

namespace waybill::edge {
namespace {

template <class Enum>
std::string word_of(const std::optional<Enum>& value) {
  return value ? std::string(core::to_word(*value)) : std::string();
}

std::vector<text::NoticeProcess> processes(const std::vector<core::ProcessNote>& notes) {
  std::vector<text::NoticeProcess> out;
  for (const core::ProcessNote& note : notes) {
    out.push_back({note.pid, note.comm, note.state, note.cmdline});
  }
  return out;
}

std::string fate(const engine::JobView& job) {
  if (!job.leftovers_settled) return {};
  return job.leftovers_kept ? "kept" : "killed";
}

// "monitor 1 (`error`): 3 lines, 1 of them not shown; the last of its 10 events"
std::string told_sentence(const core::Monitor& monitor) {
  std::string sentence = "monitor " + std::to_string(monitor.number);
  if (!monitor.pattern.empty()) sentence += " (" + monitor.pattern + ")";
  sentence += ": " + std::to_string(monitor.lines) + (monitor.lines == 1 ? " line" : " lines");
  if (monitor.untold > 0) sentence += ", " + std::to_string(monitor.untold) + " of them not shown";
  if (monitor.missed > 0) {
    sentence += "; " + std::to_string(monitor.missed) + " bytes of output were gone unseen";
  }
  if (monitor.events > 0 && monitor.events == monitor.events_max) {
    sentence += "; the last of its " + std::to_string(monitor.events_max) + " events";
  }
  return sentence;
}

text::NoticeEvent notice_event(const engine::EventData& event) {
  const engine::JobView& job = event.job;
  text::NoticeEvent out;
  out.event_id = event.id.str();
  out.type = core::to_word(event.type);
  out.job_id = job.id.str();
  out.label = job.label;
  out.status = core::to_word(job.status);
  out.verdict = word_of(job.verdict);
  if (job.exit && job.verdict) out.sentence = core::describe(*job.exit, job.stages, *job.verdict);
  for (std::size_t i = 0; i < job.stages.claimed.size(); ++i) {
    out.stages.push_back(core::describe_stage(job.stages, i));
  }
  if (event.monitor) out.sentence = told_sentence(*event.monitor);
  out.duration = job.duration;
  out.cause = word_of(job.cause);
  out.actor = job.actor;
  // The supervisor's reason is the sentence itself; anybody else's is worth a line.
  if (job.actor != "supervisor") out.reason = job.reason;
  out.command = job.command_preview;
  out.tail = event.tail;
  out.output_bytes = job.output.bytes;
  for (const core::Gap& gap : job.output.gaps) out.gaps.emplace_back(gap.from, gap.to);
  out.output_incomplete = job.output.incomplete;
  out.repeat = event.repeat;
  out.read_more = "waybill logs " + job.id.str();
  out.survivors = processes(job.survivors);
  out.leftovers = processes(job.leftovers);
  out.leftovers_fate = fate(job);
  return out;
}

}  // namespace

std::string tail_text(std::string_view raw, const Settings& settings) {
  std::string rendered = text::render(raw);
  const auto limit = static_cast<std::size_t>(settings.notice_tail_bytes);
  if (rendered.size() > limit) {
    rendered.erase(0, text::boundary_after(rendered, rendered.size() - limit));
  }
  return rendered;
}

std::string notice_text(const engine::HandOver& hand_over, const Settings& settings) {
  text::Notice notice;
  notice.delivery_id = hand_over.delivery.str();
  notice.repeat = hand_over.repeat;
  for (const engine::EventData& event : hand_over.events) {
    notice.events.push_back(notice_event(event));
  }
  return text::render_notice(notice, {static_cast<std::size_t>(settings.notice_tail_bytes),
                                      static_cast<std::size_t>(settings.hand_over_bytes)});
}

}  // namespace waybill::edge
