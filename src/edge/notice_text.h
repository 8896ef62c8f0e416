#pragma once
// What a hand-over says in words, for a model: the one place where the edge meets the rendering
// room. Job text in it is untrusted data and framed as such.

#include <string>
#include <string_view>

#include "base/limits.h"
#include "engine/api.h"

namespace waybill::edge {

// The notice of a hand-over, at most Settings::hand_over_bytes.
std::string notice_text(const engine::HandOver& hand_over, const Settings& settings);

// The end of a job's output, rendered: valid UTF-8 without control characters other than newline
// and tab, at most Settings::notice_tail_bytes.
std::string tail_text(std::string_view raw, const Settings& settings);

}  // namespace waybill::edge
