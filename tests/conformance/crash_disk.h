#pragma once
// What the disk below a file layer has: of each file what was synced, and the changes since then.
// Knows nothing of SQLite; faulty_disk.cc tells it what happens.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "faulty_disk.h"

namespace waybill::test {

class DiskImages {
 public:
  // The file as it lies there now counts as synced, unless it is followed already.
  void opened(const std::string& path);
  void written(const std::string& path, std::uint64_t offset, std::string_view bytes);
  void truncated(const std::string& path, std::uint64_t size);
  // With it the directory: files that were made or removed stay so.
  void synced(const std::string& path);
  void removed(const std::string& path);

  // Puts into the real files what a power failure leaves.
  void fail(Unsynced unsynced, std::uint64_t seed);

 private:
  struct Change {
    bool truncate = false;
    std::uint64_t offset = 0;  // of a truncation: the new size
    std::string bytes;
  };
  struct File {
    std::string synced;
    bool durable = false;  // its name is on the disk
    bool removed = false;  // and that is not yet certain
    std::vector<Change> changes;
  };
  static void apply(std::string& content, const Change& change);

  std::map<std::string, File> files_;
};

}  // namespace waybill::test
