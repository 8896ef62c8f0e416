#pragma once
// Allow and deny rules of a session (SPEC section 4): shell-like patterns over the command's text.
// They keep an agent from mistakes. They are no sandbox: text can say one thing in many ways.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace waybill::core {

// `*` stands for any bytes, `?` for one; everything else for itself. The whole text must match.
bool pattern_matches(std::string_view pattern, std::string_view text);

struct Rules {
  std::vector<std::string> allow;  // not empty: the command must match one of them
  std::vector<std::string> deny;   // and none of these
};

// Why the command is refused, as a sentence; nullopt when it is not. Deny is stronger.
std::optional<std::string> refused_by(const Rules& rules, std::string_view command);

}  // namespace waybill::core
