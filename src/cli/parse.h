#pragma once
// From argv to a row of the command table and its values.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/table.h"

namespace waybill::cli {

struct Parsed {
  const CommandInfo* command = nullptr;  // null: only `help` is to be printed
  std::map<std::string, std::vector<std::string>, std::less<>> values;  // by flag
  std::vector<std::string> operands;
  std::vector<std::string> words;  // after `--`, of a command that takes one
  std::string help;

  bool has(std::string_view flag) const { return values.find(flag) != values.end(); }
  std::optional<std::string> find(std::string_view flag) const;
  std::vector<std::string> all(std::string_view flag) const;
};

// `arguments` without the program's name. Errors are usage errors (bad_request) with a hint.
Result<Parsed> parse(const std::vector<std::string>& arguments);

// Values with a form; a usage error names the flag. nullopt when the flag is not there.
Result<std::optional<Millis>> duration_of(const Parsed& parsed, std::string_view flag);
Result<std::optional<std::uint64_t>> size_of(const Parsed& parsed, std::string_view flag);
Result<std::optional<std::uint64_t>> number_of(const Parsed& parsed, std::string_view flag);
// The same for a time to wait, which must be above zero.
Result<std::optional<Millis>> timeout_of(const Parsed& parsed, std::string_view flag);

}  // namespace waybill::cli
