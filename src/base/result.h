#pragma once
// Result<T>: a value or an Error. Expected failures travel as results; exceptions mean "cannot
// happen".

#include <string>
#include <utility>

#include <tl/expected.hpp>

#include "base/error.h"

namespace waybill {

template <class T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace waybill

#define WAYBILL_CONCAT_(a, b) a##b
#define WAYBILL_CONCAT(a, b) WAYBILL_CONCAT_(a, b)

// TRY(expression): leaves the function with the error, if there is one.
#define TRY(expression)                                                          \
  do {                                                                           \
    if (auto try_result_ = (expression); !try_result_)                           \
      return ::tl::unexpected<::waybill::Error>(std::move(try_result_).error()); \
  } while (false)

// TRY_ASSIGN(declaration, expression): the same, binding the value.
#define TRY_ASSIGN(declaration, expression) \
  TRY_ASSIGN_(WAYBILL_CONCAT(try_value_, __LINE__), declaration, expression)
#define TRY_ASSIGN_(temporary, declaration, expression)                                    \
  auto temporary = (expression);                                                           \
  if (!temporary) return ::tl::unexpected<::waybill::Error>(std::move(temporary).error()); \
  declaration = std::move(*temporary)
