#pragma once
// Scripts that take back what a later version of the schema added, newest first, so that a test has
// a store of an older one.

#include <string_view>

namespace waybill::test {

inline constexpr std::string_view kUndoNode = "DROP TABLE node; DROP TABLE unrecoverable";

}  // namespace waybill::test
