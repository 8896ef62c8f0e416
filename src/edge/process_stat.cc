#include "edge/process_stat.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

namespace waybill::edge {
namespace {

constexpr std::size_t kStartField = 20;  // counted after the name, from 1

template <class Number>
bool read_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

std::optional<ProcessStat> process_stat(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // The name stands in parentheses and may hold anything; the other fields follow its last one.
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessStat stat;
  stat.name = text.substr(open + 1, close - open - 1);
  std::vector<std::string_view> fields;
  std::string_view rest = std::string_view(text).substr(std::min(close + 2, text.size()));
  while (!rest.empty() && fields.size() < kStartField) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    fields.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (fields.size() < kStartField || !read_number(fields[1], stat.parent) ||
      !read_number(fields[kStartField - 1], stat.start)) {
    return std::nullopt;
  }
  return stat;
}

}  // namespace waybill::edge
