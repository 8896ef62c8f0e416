#pragma once
// Structured columns: exit, stages, output, usage, process notes as JSON text. Reading
// re-validates: what does not parse is state_corrupt.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/exit.h"
#include "core/facts.h"

namespace waybill::store {

std::string encode_exit(const core::Exit& exit);
Result<core::Exit> decode_exit(std::string_view text);

std::string encode_stages(const core::Stages& stages);
Result<core::Stages> decode_stages(std::string_view text);

std::string encode_output(const core::OutputFacts& output);
Result<core::OutputFacts> decode_output(std::string_view text);

std::string encode_usage(const core::UsageFacts& usage);
Result<core::UsageFacts> decode_usage(std::string_view text);

std::string encode_notes(const std::vector<core::ProcessNote>& notes);
Result<std::vector<core::ProcessNote>> decode_notes(std::string_view text);

std::string encode_texts(const std::vector<std::string>& texts);
Result<std::vector<std::string>> decode_texts(std::string_view text);

}  // namespace waybill::store
