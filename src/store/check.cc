#include "store/check.h"

#include <set>

#include "store/clients.h"
#include "store/inbox.h"
#include "store/jobs.h"
#include "store/sessions.h"

namespace waybill::store {
namespace {

struct Live {
  core::Owner owner;
  std::string id;
};

// Ids and owners alone, so that nothing here can fail to parse.
Result<std::vector<Live>> live_ids(Database& db, std::string_view sql) {
  std::vector<Live> found;
  TRY(db.each(sql, {}, [&](const Row& row) -> Result<void> {
    found.push_back({{TenantId(row.string(0)), SessionId(row.string(1))}, row.string(2)});
    return {};
  }));
  return found;
}

template <class T>
void remember(std::vector<BadRow>& bad, const core::Owner& owner, const Result<T>& read) {
  if (!read && read.error().code == ErrorCode::state_corrupt) {
    bad.push_back({owner, read.error().message});
  }
}

}  // namespace

Result<std::vector<BadRow>> check_live_rows(Database& db) {
  std::vector<BadRow> bad;
  // Anything that is not known to be terminal is live: also a status that does not parse.
  TRY_ASSIGN(const std::vector<Live> jobs,
             live_ids(db,
                      "SELECT tenant, session, job FROM job WHERE status NOT IN "
                      "('succeeded', 'failed', 'stopped')"));
  for (const Live& live : jobs) {
    const auto job = find_job(db, JobId(live.id));
    remember(bad, live.owner, job);
    remember(bad, live.owner, find_launch(db, JobId(live.id)));
  }
  TRY_ASSIGN(const std::vector<Live> events,
             live_ids(db, "SELECT tenant, session, event FROM inbox WHERE acked_at IS NULL"));
  for (const Live& live : events) remember(bad, live.owner, find_event(db, EventId(live.id)));
  TRY_ASSIGN(const std::vector<Live> turns,
             live_ids(db, "SELECT tenant, session, turn FROM turn WHERE state <> 'closed'"));
  for (const Live& live : turns)
    remember(bad, live.owner, find_turn(db, live.owner, TurnId(live.id)));
  // Of sessions with anything live; another's is looked at when it is used.
  TRY_ASSIGN(const std::vector<Live> hosts,
             live_ids(db, "SELECT tenant, session, session FROM session WHERE lease_live = 1"));
  std::set<core::Owner> owners;
  for (const auto* all : {&jobs, &events, &turns, &hosts}) {
    for (const Live& live : *all) owners.insert(live.owner);
  }
  for (const core::Owner& owner : owners) remember(bad, owner, find_client(db, owner));
  return bad;
}

}  // namespace waybill::store
