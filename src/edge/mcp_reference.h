#pragma once
// docs/mcp.md, made from the table of tools.

#include <string>

namespace waybill::edge {

std::string mcp_reference();

}  // namespace waybill::edge
