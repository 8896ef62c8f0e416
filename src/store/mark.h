#pragma once
// The mark: which receipts this data directory has seen, in a file beside the store
// (docs/storage.md). A store that is put back from a backup, or that lost commits, is behind it,
// and is not served as if nothing had happened (SPEC section 8). Written in place after every
// commit that made receipts, and never ahead of the store: it may lag when the power fails, and
// then it refuses nothing.

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace waybill::store {

struct Mark {
  std::string incarnation;   // of the store that made the receipts
  std::uint64_t newest = 0;  // the highest number
};

class MarkFile {
 public:
  // Opens it or makes an empty one. Errors: store_full, unavailable.
  static Result<MarkFile> open(const std::string& path);

  // nullopt: there was none, or it does not check.
  const std::optional<Mark>& found() const { return found_; }

  // One write of one sector in place. Not synced.
  Result<void> write(const Mark& mark);
  // The same, and durable with its name: before the first receipt that depends on it.
  Result<void> write_durably(const Mark& mark);

 private:
  std::string path_;
  UniqueFd file_;
  std::optional<Mark> found_;
};

// What of a store the mark is compared with.
struct Lineage {
  std::string incarnation;
  std::string before;        // the incarnation that this one took the place of, or ""
  std::uint64_t newest = 0;  // its highest receipt number
  bool marked = false;       // it was served where a mark was kept
  bool copy = false;         // it is a backup that was put here
};

// Why the store must not be served as it is; "" when it may.
std::string why_regressed(const std::optional<Mark>& mark, const Lineage& store);

}  // namespace waybill::store
