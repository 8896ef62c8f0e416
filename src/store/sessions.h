#pragma once
// Rows of `session` and `turn`.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/inbox.h"
#include "core/scope.h"
#include "store/database.h"

namespace waybill::store {

struct SessionRow {
  core::Owner owner;
  std::string host_key_hash;  // "" never attached; the capability itself is not stored
  std::uint64_t fence = 0;
  bool lease_live = false;
  std::optional<Millis> lease;  // asked for at attach: holds in an open turn
  std::optional<int> host_pid;
  std::optional<std::uint64_t> host_pid_start;
  std::optional<WallTime> last_call_at;
  bool one_shot = false;
  std::uint64_t revision = 0;
  std::uint64_t running = 0;
  std::uint64_t queued = 0;
  WallTime created_at{};
  std::string client;                  // "claude", "codex" …; "" asks for its inbox by itself
  std::optional<WallTime> wake_until;  // a wake of the live host is open until then
};

struct TurnRow {
  core::Owner owner;
  TurnId id;
  core::TurnState state = core::TurnState::open;
  bool stopped = false;
  std::uint64_t fence = 0;
  WallTime begun_at{};
  std::optional<WallTime> closed_at;
};

Result<std::optional<SessionRow>> find_session(Database& db, const core::Owner& owner);
Result<void> insert_session(Database& db, const SessionRow& session);
Result<void> update_session(Database& db, const SessionRow& session);
Result<std::vector<SessionRow>> list_sessions(Database& db, const TenantId& tenant);
Result<std::vector<SessionRow>> live_sessions(Database& db);  // lease live
Result<std::uint64_t> count_sessions(Database& db);
// Those that have a host, or had one that holds something.
Result<std::vector<core::Owner>> owners_with_host(Database& db);

Result<std::optional<TurnRow>> find_turn(Database& db, const core::Owner& owner,
                                         const TurnId& turn);
Result<std::optional<TurnRow>> find_open_turn(Database& db,
                                              const core::Owner& owner);  // open or held
Result<void> insert_turn(Database& db, const TurnRow& turn);
Result<void> update_turn(Database& db, const TurnRow& turn);

}  // namespace waybill::store
