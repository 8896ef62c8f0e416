#include <unistd.h>

#include <climits>
#include <cstring>

#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace waybill::cli {
namespace {

// The daemon has another working directory.
Result<std::string> absolute(const std::string& path) {
  if (path.starts_with('/')) return path;
  char folder[PATH_MAX];
  if (::getcwd(folder, sizeof folder) == nullptr) {
    return fail(ErrorCode::bad_request, "The current directory is gone; give an absolute path.");
  }
  return std::string(folder) + "/" + path;
}

}  // namespace

Result<int> backup_command(const Context& context) {
  TRY_ASSIGN(const std::string path, absolute(context.parsed.operands.front()));
  TRY_ASSIGN(const json::object answer, ask(context, "backup", json::object{{"path", path}}));
  if (context.json) {
    print_json(answer);
  } else {
    print_line("The store is in " + safe_line(text_of(answer, "path")) + ": " +
               std::to_string(count_of(answer, "bytes").value_or(0)) + " bytes, up to receipt " +
               std::to_string(count_of(answer, "newest_receipt").value_or(0)) +
               ". It holds the key: keep it as private as the data directory.");
  }
  TRY(flush_stdout());
  return 0;
}

}  // namespace waybill::cli
