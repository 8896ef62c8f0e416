#pragma once
// Scope: (tenant, session, turn, sandbox, generation). Supplied by the runtime, never by the model.

#include <optional>
#include <string>

#include "base/ids.h"

namespace waybill::core {

// Who owns jobs and events (I1).
struct Owner {
  TenantId tenant;
  SessionId session;

  friend auto operator<=>(const Owner&, const Owner&) = default;
  friend bool operator==(const Owner&, const Owner&) = default;
};

struct Scope {
  Owner owner;
  std::optional<TurnId> turn;
  SandboxId sandbox;
  GenerationId generation;
};

inline const std::string kDefaultTenant = "local";
// The session of a person who named none: no host, no wakes (SPEC section 5).
inline const std::string kUserSession = "user";

inline bool is_user_session(const Owner& owner) { return owner.session.str() == kUserSession; }

}  // namespace waybill::core
