#include "edge/notice_text.h"

#include "edge/json.h"

namespace waybill::edge {
namespace {

bool printable(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return c == '\n' || c == '\t' || (byte >= 0x20 && byte != 0x7F);
}

std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : valid_utf8(text)) out.push_back(printable(c) && c != '\n' ? c : ' ');
  return out;
}

// Every line of job text starts with a bar, so that nothing in it can pass for a line of ours.
std::string framed(std::string_view text) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find('\n', at);
    const std::size_t stop = end == std::string_view::npos ? text.size() : end;
    out += "| " + std::string(text.substr(at, stop - at)) + "\n";
    at = stop + 1;
  }
  return out;
}

std::string event_text(const engine::EventData& event, const Settings& settings) {
  const engine::JobView& job = event.job;
  std::string out = "event " + event.id.str() + (event.repeat ? " (repeat)" : "") + ": job " +
                    job.id.str() + " is " + std::string(core::to_word(job.status));
  if (job.verdict) out += ", verdict " + std::string(core::to_word(*job.verdict));
  if (job.exit && job.exit->code) out += ", exit code " + std::to_string(*job.exit->code);
  if (job.exit && job.exit->signal) out += ", signal " + std::to_string(*job.exit->signal);
  if (job.cause) out += ", cause " + std::string(core::to_word(*job.cause));
  out += "\ncommand, quoted data:\n" + framed(one_line(job.command_preview));
  out += "last output of " + std::to_string(job.output.bytes) + " bytes, quoted data:\n" +
         framed(tail_text(event.tail, settings));
  return out + "Read all of it: waybill logs " + job.id.str() + "\n";
}

}  // namespace

std::string tail_text(std::string_view raw, const Settings& settings) {
  const std::size_t limit = settings.notice_tail_bytes;
  if (raw.size() > limit) {
    raw.remove_prefix(raw.size() - limit);
    while (!raw.empty() && (static_cast<unsigned char>(raw.front()) & 0xC0U) == 0x80) {
      raw.remove_prefix(1);
    }
  }
  std::string out;
  for (const char c : valid_utf8(raw)) {
    if (printable(c)) out.push_back(c);
  }
  return out;
}

std::string notice_text(const engine::HandOver& hand_over, const Settings& settings) {
  std::string out;
  for (const engine::EventData& event : hand_over.events) {
    const std::string text = event_text(event, settings);
    if (out.size() + text.size() > settings.hand_over_bytes) {
      out += "event " + event.id.str() + ": job " + event.job.id.str() + " is " +
             std::string(core::to_word(event.job.status)) + " (shortened)\n";
      continue;
    }
    out += text;
  }
  return out;
}

}  // namespace waybill::edge
