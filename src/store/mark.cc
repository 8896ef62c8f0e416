#include "store/mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/crc32.h"

namespace waybill::store {
namespace {

constexpr std::size_t kBytes = 256;  // always this long: a file that never grows needs no space
constexpr std::string_view kIncarnation = "incarnation ";
constexpr std::string_view kNewest = " newest ";
constexpr std::string_view kCrc = " crc ";

std::string line_of(const Mark& mark) {
  std::string line(kIncarnation);
  line += mark.incarnation;
  line += kNewest;
  line += std::to_string(mark.newest);
  std::array<char, 8> digits{};
  crc32_hex(crc32(line.data(), line.size()), digits.data());
  line += kCrc;
  line.append(digits.data(), digits.size());
  line.resize(kBytes - 1, ' ');
  line.push_back('\n');
  return line;
}

std::optional<Mark> parse(std::string_view text) {
  const std::size_t crc = text.find(kCrc);
  if (crc == std::string_view::npos || text.size() < crc + kCrc.size() + 8) return std::nullopt;
  std::array<char, 8> digits{};
  crc32_hex(crc32(text.data(), crc), digits.data());
  if (text.substr(crc + kCrc.size(), 8) != std::string_view(digits.data(), 8)) return std::nullopt;
  const std::string_view body = text.substr(0, crc);
  const std::size_t newest = body.find(kNewest);
  if (!body.starts_with(kIncarnation) || newest == std::string_view::npos) return std::nullopt;
  Mark mark;
  mark.incarnation = body.substr(kIncarnation.size(), newest - kIncarnation.size());
  const std::string_view number = body.substr(newest + kNewest.size());
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), mark.newest);
  if (error != std::errc{} || end != number.data() + number.size()) return std::nullopt;
  return mark;
}

Error failed(const std::string& path, int error) {
  return Error{
      error == ENOSPC || error == EDQUOT ? ErrorCode::store_full : ErrorCode::unavailable,
      "The mark " + path + " cannot be written: " + std::string(strerrordesc_np(error)) + "."};
}

}  // namespace

Result<MarkFile> MarkFile::open(const std::string& path) {
  MarkFile mark;
  mark.path_ = path;
  mark.file_.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!mark.file_.valid()) return fail(failed(path, errno));
  std::array<char, kBytes> text{};
  const ssize_t got = ::pread(mark.file_.get(), text.data(), text.size(), 0);
  if (got > 0) mark.found_ = parse({text.data(), static_cast<std::size_t>(got)});
  return mark;
}

Result<void> MarkFile::write(const Mark& mark) {
  const std::string line = line_of(mark);
  const ssize_t wrote = ::pwrite(file_.get(), line.data(), line.size(), 0);
  if (wrote == static_cast<ssize_t>(line.size())) return {};
  return fail(failed(path_, wrote < 0 ? errno : ENOSPC));
}

Result<void> MarkFile::write_durably(const Mark& mark) {
  TRY(write(mark));
  const UniqueFd dir(
      ::open(path_.substr(0, path_.rfind('/')).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (::fsync(file_.get()) == 0 && dir.valid() && ::fsync(dir.get()) == 0) return {};
  return fail(failed(path_, errno));
}

std::string why_regressed(const std::optional<Mark>& mark, const Lineage& store) {
  const std::string number = std::to_string(store.newest);
  if (!mark) {
    if (store.copy) {
      return "it is a backup, and nothing here tells what happened after it was taken";
    }
    if (!store.marked || store.newest == 0) return {};
    return "the mark beside it, which tells what this node has seen, is missing or damaged";
  }
  if (mark->incarnation != store.incarnation && mark->incarnation != store.before) {
    if (mark->newest == 0) return {};
    return "this node has worked with another store (receipt " + std::to_string(mark->newest) +
           " was its newest)";
  }
  if (store.newest >= mark->newest) return {};
  return "its newest receipt is " + number + ", and this node has seen " +
         std::to_string(mark->newest);
}

}  // namespace waybill::store
