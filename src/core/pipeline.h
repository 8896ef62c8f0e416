#pragma once
// A conservative look at shell text: does it hold a pipe, and what are the stages of its last
// pipeline? When in doubt it says "cannot tell"; nothing here ever changes what is run.

#include <string>
#include <string_view>
#include <vector>

namespace waybill::core {

// True when the text holds a `|` that is not part of `||`: a superset, quotes are ignored on
// purpose.
bool may_hold_pipeline(std::string_view command);

// The stages of the last top-level pipeline, trimmed; empty when the tokenizer is not sure.
std::vector<std::string> last_pipeline(std::string_view command);

// The first word of a stage, past assignments and `command`/`env`-like prefixes it knows; "" if
// unsure.
std::string stage_program(std::string_view stage);

// grep, diff, test …: programs for which exit 1 is an answer, not a failure.
bool is_predicate(std::string_view stage);

// head, `grep -q`, `sed q`: programs that stop reading early.
bool closes_early(std::string_view stage);

}  // namespace waybill::core
