// Looking into answers.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>

#include "e2e/harness.h"

namespace waybill::e2e {

namespace json = boost::json;

json::value at(const json::value& value, std::string_view path) {
  const json::value* here = &value;
  for (std::string_view rest = path; !rest.empty();) {
    const std::string_view key = rest.substr(0, rest.find('.'));
    rest.remove_prefix(std::min(key.size() + 1, rest.size()));
    std::size_t index = 0;
    const bool is_index =
        std::from_chars(key.data(), key.data() + key.size(), index).ec == std::errc{};
    const json::value* next = nullptr;
    if (here->is_object()) {
      next = here->get_object().if_contains(json::string_view(key.data(), key.size()));
    } else if (here->is_array() && is_index) {
      next = here->get_array().if_contains(index);
    }
    if (next == nullptr) {
      ADD_FAILURE() << "nothing at " << path << " in " << json::serialize(value);
      return nullptr;
    }
    here = next;
  }
  return *here;
}

std::vector<json::value> items_at(const json::value& value, std::string_view path) {
  const json::value found = at(value, path);
  if (found.is_array()) return {found.get_array().begin(), found.get_array().end()};
  ADD_FAILURE() << "no list at " << path << ": " << json::serialize(found);
  return {};
}

std::string text_at(const json::value& value, std::string_view path) {
  const json::value found = at(value, path);
  if (found.is_string()) return std::string(found.get_string());
  ADD_FAILURE() << "no text at " << path << ": " << json::serialize(found);
  return "";
}

std::int64_t number_at(const json::value& value, std::string_view path) {
  const json::value found = at(value, path);
  if (found.is_int64()) return found.get_int64();
  if (found.is_uint64()) return static_cast<std::int64_t>(found.get_uint64());
  ADD_FAILURE() << "no number at " << path << ": " << json::serialize(found);
  return -1;
}

std::string text_or_empty_at(const json::value& value, std::string_view path) {
  return at(value, path).is_null() ? "" : text_at(value, path);
}

std::vector<std::string> endings_of(const json::value& job) {
  std::vector<std::string> endings;
  for (const json::value& receipt : items_at(job, "receipts")) {
    const std::string name = text_at(receipt, "name");
    const bool ends = name == "completed" || name == "failed" || name == "cancelled";
    if (ends && text_or_empty_at(receipt, "from") != text_at(receipt, "to"))
      endings.push_back(name);
  }
  return endings;
}

std::string read_file(const std::string& path) {
  // Not a stream: a file of /proc may fail in the middle, when its process ends.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string bytes;
  char part[65536];
  for (;;) {
    const ssize_t n = file.valid() ? ::read(file.get(), part, sizeof part) : 0;
    if (n <= 0) return bytes;
    bytes.append(part, static_cast<std::size_t>(n));
  }
}

unsigned mode_of(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_mode & 07777U : 0;
}

}  // namespace waybill::e2e
