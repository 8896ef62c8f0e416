#pragma once
// Words as shell text that any POSIX shell, bash and zsh take apart into the same words again.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace waybill::cli {

std::string shell_quote(std::string_view word);

// The first word is also kept from being read as an assignment or a reserved word.
std::string shell_join(const std::vector<std::string>& words);

// The words of a command line as a shell would split it: blanks, quotes and backslashes, nothing
// else. nullopt when a quote is not closed.
std::optional<std::vector<std::string>> shell_split(std::string_view text);

}  // namespace waybill::cli
