#pragma once
// Where a store is at home: which machine, and which directory on it. A copy of the directory, and
// the same directory on another machine, are other places: what ran from the first can be neither
// attached nor proven gone from the second (SPEC section 8).

#include <cstdint>
#include <string>

namespace waybill::core {

struct Node {
  std::string machine;       // a digest of the machine's own id; "" when it has none
  std::uint64_t inode = 0;   // of the data directory; 0: not known
  std::int64_t born_ns = 0;  // when that was made, Unix time; 0: the file system does not say
  friend bool operator==(const Node&, const Node&) = default;
};

// What is not known on one side says nothing. An inode alone decides only where there is no birth
// time: some file systems number a directory anew each time they are mounted.
bool same_place(const Node& before, const Node& now);

}  // namespace waybill::core
