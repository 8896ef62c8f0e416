#include "core/rules.h"

namespace waybill::core {

bool pattern_matches(std::string_view pattern, std::string_view text) {
  // One place to go back to is enough: a later `*` can match whatever an earlier one could.
  std::size_t at = 0;
  std::size_t of = 0;
  std::optional<std::size_t> star;
  std::size_t star_at = 0;
  while (at < text.size()) {
    if (of < pattern.size() && pattern[of] == '*') {
      star = of++;
      star_at = at;
    } else if (of < pattern.size() && (pattern[of] == '?' || pattern[of] == text[at])) {
      ++of;
      ++at;
    } else if (star) {
      of = *star + 1;
      at = ++star_at;
    } else {
      return false;
    }
  }
  while (of < pattern.size() && pattern[of] == '*') ++of;
  return of == pattern.size();
}

std::optional<std::string> refused_by(const Rules& rules, std::string_view command) {
  for (const std::string& pattern : rules.deny) {
    if (pattern_matches(pattern, command)) {
      return "The session's deny rule \"" + pattern + "\" forbids this command.";
    }
  }
  if (rules.allow.empty()) return std::nullopt;
  for (const std::string& pattern : rules.allow) {
    if (pattern_matches(pattern, command)) return std::nullopt;
  }
  return "None of the session's allow rules matches this command.";
}

}  // namespace waybill::core
