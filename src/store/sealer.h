#pragma once
// Authenticated encryption for what must not lie in the store in the clear (I13): command,
// arguments, environment, tails of output. The key is a file of 32 bytes, mode 0600, in the data
// directory.

#include <array>
#include <string>
#include <string_view>

#include "base/result.h"

namespace waybill::store {

class Sealer {
 public:
  // Reads the key, or makes one. A key file of another size is state_corrupt; a missing one beside
  // an existing store is too, since what was sealed under it could never be read again.
  static Result<Sealer> open(const std::string& key_path, bool may_create);
  // Puts back the key that a backup carries; never over another one.
  static Result<void> put_back(const std::string& key_path, std::string_view key);
  static Sealer with_key(const std::array<unsigned char, 32>& key);

  // `context` (the job's id) is bound to the text: a sealed value copied to another row does not
  // open.
  std::string seal(std::string_view plain, std::string_view context) const;
  Result<std::string> unseal(std::string_view sealed, std::string_view context) const;

  // Keyed, so that equal commands can be found without the store telling what they are.
  std::string fingerprint(std::string_view text) const;

 private:
  std::array<unsigned char, 32> key_{};
};

}  // namespace waybill::store
