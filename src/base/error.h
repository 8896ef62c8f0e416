#pragma once
// Errors are values: a stable code and a sentence that tells the user what to do (SPEC section 14).

#include <optional>
#include <string>
#include <string_view>

namespace waybill {

// The closed list of stable error codes. The word on the wire is the enumerator's name.
enum class ErrorCode {
  not_found,
  not_owner,
  fenced,
  owner_unrecoverable,
  state_corrupt,
  store_newer,
  store_regressed,
  store_full,
  no_delivery_path,
  illegal_transition,
  already_terminal,
  conflict,
  limit_reached,
  too_large,
  cwd_missing,
  bad_request,
  unauthenticated,
  forbidden,
  unsupported_version,
  unavailable,
};

struct ErrorTraits {
  ErrorCode code;
  std::string_view word;  // on the wire, in docs, in the CLI
  int rpc_code;           // JSON-RPC error code
  int exit_code;          // of the command line (SPEC section 15)
  bool retryable;         // the same call may succeed later without the caller changing anything
};

const ErrorTraits& traits(ErrorCode code);
std::string_view to_word(ErrorCode code);
std::optional<ErrorCode> error_code_from_word(std::string_view word);

struct Error {
  ErrorCode code;
  std::string message;  // one sentence, no trailing newline
};

}  // namespace waybill
