#pragma once
// docs/rpc.md, made from the method table.

#include <string>

namespace waybill::edge {

std::string rpc_reference();

}  // namespace waybill::edge
