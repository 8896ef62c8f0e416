#pragma once
// The parameters of one call, decoded strictly by the method's table row: unknown names, wrong
// types, values out of range, NUL bytes and invalid UTF-8 are refused with the field's name. What
// comes out needs no further checks of form.

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "edge/method.h"

namespace waybill::edge {

class Params {
 public:
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  using List = std::vector<std::string>;
  using Value = std::variant<std::string, std::uint64_t, bool, List, Pairs>;

  // `params` may be nullptr (left out). null as a value means left out.
  static Result<Params> decode(const MethodInfo& info, const boost::json::value* params);

  bool has(std::string_view name) const;
  // Whether the method has such a parameter at all; every other function here takes that for
  // granted.
  bool takes(std::string_view name) const;
  // Empty, false or nullopt when left out. The name must stand in the table, with that kind.
  std::string text(std::string_view name) const;
  std::optional<std::string> find_text(std::string_view name) const;
  std::optional<std::uint64_t> number(std::string_view name) const;
  bool flag(std::string_view name) const;
  List list(std::string_view name) const;
  Pairs pairs(std::string_view name) const;

 private:
  explicit Params(const MethodInfo& info) : info_(&info) {}
  const Value* find(std::string_view name) const;

  const MethodInfo* info_;
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace waybill::edge
