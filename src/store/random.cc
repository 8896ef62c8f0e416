#include "store/random.h"

#include <sodium.h>

#include "base/ids.h"

namespace waybill::store {

std::string random_id(std::string_view prefix, const Clock& clock) {
  unsigned char random[10];
  randombytes_buf(random, sizeof random);
  return make_sortable_id(
      prefix, static_cast<unsigned long long>(clock.wall().time_since_epoch().count()), random);
}

double random_unit() { return static_cast<double>(randombytes_random()) / 4294967296.0; }

}  // namespace waybill::store
