#pragma once
// Rows of `session_client` and `host_call`: what the programs of an agent client tell of it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/scope.h"
#include "store/database.h"

namespace waybill::store {

struct ClientRow {
  core::Owner owner;
  WallTime attached_at{};
  std::vector<std::string> wrapper;  // commands of the session are run through it; empty: none
  std::vector<std::string> allow;    // patterns; not empty: a command must match one
  std::vector<std::string> deny;     // patterns; a command that matches one is refused
  std::string sealed_resume;         // how to start the client again; "" it is not to be started
  std::optional<JobId> wake_job;     // the job that starts it, while that is not over
  std::uint64_t wakes = 0;           // started since a user last spoke
};

Result<std::optional<ClientRow>> find_client(Database& db, const core::Owner& owner);
Result<void> put_client(Database& db, const ClientRow& row);
Result<std::optional<core::Owner>> find_wake(Database& db, const JobId& wake_job);

// The session that this host attached last and has not left; nullopt when there is none.
Result<std::optional<core::Owner>> session_of_host(Database& db, const TenantId& tenant,
                                                   std::string_view host_key_hash);

struct CallRow {
  std::string host_key_hash;
  std::string call;
  core::Owner owner;
  std::optional<TurnId> turn;
  bool subagent = false;
  WallTime at{};
};

Result<void> put_call(Database& db, const CallRow& row);
Result<std::optional<CallRow>> find_call(Database& db, std::string_view host_key_hash,
                                         std::string_view call);
// Announcements that nobody asked for in time.
Result<void> forget_calls(Database& db, WallTime older_than);

}  // namespace waybill::store
