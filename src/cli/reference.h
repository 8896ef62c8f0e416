#pragma once
// docs/cli.md, made from the command table.

#include <string>

namespace waybill::cli {

std::string cli_reference();

}  // namespace waybill::cli
