#pragma once
// Surgery on JSON that belongs to somebody else: every byte outside the inserted, replaced or
// removed value stays as it was (white space, order, spelling of numbers, duplicate keys, CRLF, a
// byte order mark, a missing last newline). What is inserted is laid out like its neighbours. Pure.
//
// Removing what was inserted gives the old bytes again. Whether an object or array that became
// empty was there before can be told from the bytes: one that was there, empty, keeps its white
// space and one blank in front of the first thing inserted; one that was made for the insertion has
// neither and goes with it. When somebody else has laid the document out anew, it counts as made.

#include <boost/json/fwd.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace waybill::edge {

inline constexpr std::size_t kEditBytesMax = 64 * 1024 * 1024;
inline constexpr std::size_t kEditDepthMax = 256;

// A member's key (of several with one name the last, as readers of JSON take it) or an index.
using JsonStep = std::variant<std::string, std::size_t>;
using JsonPath = std::vector<JsonStep>;

enum class JsonKind { object, array, other };

class JsonText {
 public:
  // A document whose root is an object; strict, except that strings may hold any bytes from 0x80 on
  // and halves of surrogate pairs. `name` stands in front of "line:column" in errors, which are
  // bad_request, or too_large.
  static Result<JsonText> parse(std::string text, std::string name);
  // A document that is not there yet: an empty object that was made for what is inserted.
  static JsonText fresh(std::string name);

  const std::string& text() const { return text_; }

  // Of what is at the path; nullopt, none or "" when nothing is.
  std::optional<JsonKind> kind(const JsonPath& path) const;
  std::vector<std::string> keys(const JsonPath& path) const;  // without repeats
  std::size_t count(const JsonPath& path) const;              // members or elements
  std::optional<std::string_view> value(const JsonPath& path) const;
  // The same as a value; nullopt also when Boost.JSON does not take it.
  std::optional<boost::json::value> parsed(const JsonPath& path) const;

  // What is at the path gets this value; a member at a path of keys is made when it is missing, and
  // the objects above it. bad_request, with nothing changed, when one on the way is not an object.
  Result<void> set(const JsonPath& path, const boost::json::value& value);
  // The array at a path of keys gets one more element; what is missing is made.
  Result<void> push(const JsonPath& keys, const boost::json::value& value);
  // Removes what is at the path, and what was made for it and is empty now. False when that was the
  // document itself; the text then means nothing. True also when nothing was there.
  bool remove(const JsonPath& path);

 private:
  JsonText(std::string text, std::string name, bool fresh);
  Result<void> add(const JsonPath& keys, const boost::json::value& value, bool element);
  tl::unexpected<Error> refused(std::size_t at, const std::string& why) const;

  std::string text_;
  std::string name_;
  bool fresh_;
};

}  // namespace waybill::edge
