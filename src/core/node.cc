#include "core/node.h"

namespace waybill::core {

bool same_place(const Node& before, const Node& now) {
  const bool machines_known = !before.machine.empty() && !now.machine.empty();
  if (machines_known && before.machine != now.machine) return false;
  if (before.born_ns != 0 && now.born_ns != 0) return before.born_ns == now.born_ns;
  if (before.inode != 0 && now.inode != 0) return before.inode == now.inode;
  return true;
}

}  // namespace waybill::core
