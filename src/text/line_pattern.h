#pragma once
// A pattern that lines are looked at with: RE2, so that no pattern and no line takes more than
// linear time, and memory is bounded. Immutable; any thread.

#include <memory>
#include <string_view>

#include "base/result.h"

namespace waybill::text {

class LinePattern {
 public:
  static constexpr std::size_t kBytesMax = 1000;

  // bad_request with what is wrong with it. "" fits every line.
  static Result<LinePattern> compile(std::string_view pattern);

  LinePattern(LinePattern&&) noexcept;
  LinePattern& operator=(LinePattern&&) noexcept;
  ~LinePattern();

  // `line` is UTF-8 without its newline. Anywhere in it, unless the pattern says `^` or `$`.
  bool fits(std::string_view line) const;

 private:
  struct Impl;
  explicit LinePattern(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace waybill::text
