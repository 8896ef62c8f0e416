#pragma once
// Words as shell text that any POSIX shell, bash and zsh take apart into the same words again.

#include <string>
#include <string_view>
#include <vector>

namespace waybill::cli {

std::string shell_quote(std::string_view word);

// The first word is also kept from being read as an assignment or a reserved word.
std::string shell_join(const std::vector<std::string>& words);

}  // namespace waybill::cli
