#pragma once
// The settings in force: defaults, then `config.toml` of the data directory, then `--set`.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/result.h"

namespace waybill::daemon {

// Applies the text of a config.toml. Unknown keys and wrong values are bad_request, naming `path`
// and the line.
Result<void> apply_config(Settings& settings, std::string_view text, const std::string& path);

// Reads `directory`/config.toml if there is one, then applies `sets` (key, value) in order.
Result<Settings> load_settings(const std::string& directory,
                               const std::vector<std::pair<std::string, std::string>>& sets);

}  // namespace waybill::daemon
