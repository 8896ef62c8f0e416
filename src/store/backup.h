#pragma once
// Backups: a copy of the store in one file, taken while it is served. The copy holds the key that
// its sealed columns need, says that it is a copy, and is put back by laying it where the store was
// (docs/storage.md).

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace waybill::store {

struct BackupOrder {
  std::string store;   // path
  std::string key;     // path of its key file
  std::string target;  // absolute path; must not exist
};

struct BackupMade {
  std::uint64_t bytes = 0;
  std::uint64_t newest_receipt = 0;
};

// A consistent copy, mode 0600, durable with its name; or nothing. Never replaces a file. Uses
// connections of its own: any thread. Errors: conflict (there is such a file), store_full,
// forbidden, unavailable, state_corrupt.
Result<BackupMade> make_backup(const BackupOrder& order, const Clock& clock);

// The key inside a copy that nobody has served yet; nullopt for a store that is none.
Result<std::optional<std::string>> key_of_backup(const std::string& store);

}  // namespace waybill::store
