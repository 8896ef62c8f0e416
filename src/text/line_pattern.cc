#include "text/line_pattern.h"

#include <re2/re2.h>

#include <string>
#include <utility>

namespace waybill::text {

struct LinePattern::Impl {
  explicit Impl(re2::StringPiece pattern, const re2::RE2::Options& options)
      : expression(pattern, options) {}
  re2::RE2 expression;
};

LinePattern::LinePattern(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LinePattern::LinePattern(LinePattern&&) noexcept = default;
LinePattern& LinePattern::operator=(LinePattern&&) noexcept = default;
LinePattern::~LinePattern() = default;

Result<LinePattern> LinePattern::compile(std::string_view pattern) {
  if (pattern.size() > kBytesMax) {
    return fail(ErrorCode::too_large, "A monitor's pattern has " + std::to_string(pattern.size()) +
                                          " bytes; at most " + std::to_string(kBytesMax) +
                                          " are allowed.");
  }
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_never_capture(true);
  options.set_max_mem(1 << 20);
  auto impl = std::make_unique<Impl>(re2::StringPiece(pattern.data(), pattern.size()), options);
  if (!impl->expression.ok()) {
    return fail(ErrorCode::bad_request,
                "The pattern \"" + std::string(pattern) +
                    "\" is not a regular expression of RE2: " + impl->expression.error() + ".");
  }
  return LinePattern(std::move(impl));
}

bool LinePattern::fits(std::string_view line) const {
  return re2::RE2::PartialMatch(re2::StringPiece(line.data(), line.size()), impl_->expression);
}

}  // namespace waybill::text
