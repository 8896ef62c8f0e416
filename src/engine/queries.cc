#include "engine/queries.h"

#include <charconv>

#include "engine/views.h"
#include "store/outputs.h"

namespace waybill::engine {
namespace {

constexpr std::uint32_t kListMax = 500;

// A cursor is the sequence number of the last job of the page before.
Result<std::uint64_t> parse_cursor(const std::string& cursor) {
  if (cursor.empty()) return std::uint64_t{0};
  std::uint64_t seq = 0;
  const auto [end, error] = std::from_chars(cursor.data(), cursor.data() + cursor.size(), seq);
  if (error == std::errc{} && end == cursor.data() + cursor.size() && seq > 0 &&
      seq < (1ULL << 62)) {
    return seq;
  }
  return fail(ErrorCode::bad_request, "cursor must be what an earlier list gave as next_cursor.");
}

}  // namespace

Queries::Queries(store::Database& database, Settings settings)
    : database_(database), settings_(settings) {}

Result<JobView> Queries::show(const Caller& caller, const JobId& job) {
  TRY_ASSIGN(const store::JobRow row, store::need_job(database_, caller.owner, job));
  return view_job(database_, row, Detail::full);
}

Result<ListReply> Queries::list(const ListRequest& request) {
  if (request.limit < 1 || request.limit > kListMax) {
    return fail(ErrorCode::bad_request,
                "limit must lie between 1 and " + std::to_string(kListMax) + ".");
  }
  store::ListFilter filter;
  filter.tenant = request.caller.owner.tenant;
  if (!request.all_sessions) filter.session = request.caller.owner.session;
  filter.statuses = request.statuses;
  TRY_ASSIGN(filter.before_seq, parse_cursor(request.cursor));
  filter.limit = request.limit + 1;  // one more tells whether there is another page
  TRY_ASSIGN(std::vector<store::JobRow> rows, store::list_jobs(database_, filter));
  ListReply reply;
  if (rows.size() > request.limit) {
    rows.pop_back();
    reply.next_cursor = std::to_string(rows.back().seq);
  }
  for (const store::JobRow& row : rows) {
    TRY_ASSIGN(JobView view, view_job(database_, row, Detail::brief));
    reply.jobs.push_back(std::move(view));
  }
  return reply;
}

Result<SessionListReply> Queries::sessions(const TenantId& tenant) {
  TRY_ASSIGN(const std::vector<store::SessionRow> rows, store::list_sessions(database_, tenant));
  SessionListReply reply;
  for (const store::SessionRow& row : rows) {
    TRY_ASSIGN(SessionView view, view_session(database_, settings_, row));
    reply.sessions.push_back(std::move(view));
  }
  return reply;
}

Result<OutputTarget> Queries::output(const Caller& caller, const JobId& job) {
  TRY_ASSIGN(const store::JobRow row, store::need_job(database_, caller.owner, job));
  OutputTarget target;
  target.job = row.id;
  target.terminal = core::is_terminal(row.status);
  if (row.ending) target.output = row.ending->output;
  if (target.output.kept_bytes > 0) {
    TRY_ASSIGN(const std::optional<store::OutputRow> now, store::find_output(database_, job));
    if (now) {
      target.expired_at = now->expired_at;
      target.expired_why = now->expired_why;
    }
  }
  return target;
}

}  // namespace waybill::engine
