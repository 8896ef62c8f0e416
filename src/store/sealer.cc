#include "store/sealer.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/unique_fd.h"

namespace waybill::store {
namespace {

constexpr std::size_t kNonce = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr std::size_t kTag = crypto_aead_xchacha20poly1305_ietf_ABYTES;
static_assert(crypto_aead_xchacha20poly1305_ietf_KEYBYTES == 32);

const unsigned char* bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string hex(const unsigned char* data, std::size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text.push_back(kDigits[data[i] >> 4]);
    text.push_back(kDigits[data[i] & 15]);
  }
  return text;
}

Error key_error(const std::string& path, const std::string& why) {
  return Error{ErrorCode::state_corrupt, "The key file " + path + " " + why +
                                             "; without it launches that wait cannot be read. "
                                             "Restore it together with the store."};
}

// Written whole under another name first: a crash leaves no half a key.
Result<void> create_key(const std::string& path, const std::array<unsigned char, 32>& key) {
  const std::string temporary = path + ".new";
  UniqueFd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const bool written =
      file.valid() &&
      ::write(file.get(), key.data(), key.size()) == static_cast<ssize_t>(key.size()) &&
      ::fsync(file.get()) == 0 && ::rename(temporary.c_str(), path.c_str()) == 0;
  if (written) return {};
  const int error = errno;
  return fail(error == ENOSPC ? ErrorCode::store_full : ErrorCode::unavailable,
              "The key file " + path + " could not be written: " + std::strerror(error) + ".");
}

}  // namespace

Result<Sealer> Sealer::open(const std::string& key_path, bool may_create) {
  CHECK(sodium_init() >= 0);
  Sealer sealer;
  UniqueFd file(::open(key_path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid()) {
    if (errno != ENOENT) return fail(key_error(key_path, std::strerror(errno)));
    if (!may_create) return fail(key_error(key_path, "is missing"));
    randombytes_buf(sealer.key_.data(), sealer.key_.size());
    TRY(create_key(key_path, sealer.key_));
    return sealer;
  }
  std::array<unsigned char, 33> read{};
  const ssize_t size = ::read(file.get(), read.data(), read.size());
  if (size != 32) return fail(key_error(key_path, "does not hold 32 bytes"));
  std::copy_n(read.begin(), 32, sealer.key_.begin());
  return sealer;
}

Result<void> Sealer::put_back(const std::string& key_path, std::string_view key) {
  std::array<unsigned char, 32> bytes{};
  if (key.size() != bytes.size()) {
    return fail(key_error(key_path, "is missing, and the backup does not hold one"));
  }
  std::copy_n(key.begin(), bytes.size(), bytes.begin());
  return create_key(key_path, bytes);
}

Sealer Sealer::with_key(const std::array<unsigned char, 32>& key) {
  CHECK(sodium_init() >= 0);
  Sealer sealer;
  sealer.key_ = key;
  return sealer;
}

std::string Sealer::seal(std::string_view plain, std::string_view context) const {
  std::string sealed(kNonce + plain.size() + kTag, '\0');
  auto* out = reinterpret_cast<unsigned char*>(sealed.data());
  randombytes_buf(out, kNonce);
  unsigned long long size = 0;
  crypto_aead_xchacha20poly1305_ietf_encrypt(out + kNonce, &size, bytes(plain), plain.size(),
                                             bytes(context), context.size(), nullptr, out,
                                             key_.data());
  sealed.resize(kNonce + size);
  return sealed;
}

Result<std::string> Sealer::unseal(std::string_view sealed, std::string_view context) const {
  if (sealed.size() >= kNonce + kTag) {
    std::string plain(sealed.size() - kNonce - kTag, '\0');
    unsigned long long size = 0;
    if (crypto_aead_xchacha20poly1305_ietf_decrypt(
            reinterpret_cast<unsigned char*>(plain.data()), &size, nullptr, bytes(sealed) + kNonce,
            sealed.size() - kNonce, bytes(context), context.size(), bytes(sealed),
            key_.data()) == 0) {
      plain.resize(size);
      return plain;
    }
  }
  return fail(ErrorCode::state_corrupt,
              "A sealed value of " + std::string(context) +
                  " does not open: it was changed, or the key is another.");
}

std::string Sealer::fingerprint(std::string_view text) const {
  unsigned char hash[16];
  crypto_generichash(hash, sizeof hash, bytes(text), text.size(), key_.data(), key_.size());
  return hex(hash, sizeof hash);
}

}  // namespace waybill::store
