#include "store/sqlite_database.h"

#include <sqlite3.h>

#include <cerrno>

#include "base/check.h"

namespace waybill::store {
namespace {

// Long enough for a backup or a curious person's shell; after that the caller is told to try again.
constexpr int kBusyTimeoutMs = 15'000;

// Why the log could not be written. SQLite itself keeps no errno of a commit.
int log_errno(sqlite3* handle) {
  sqlite3_file* log = nullptr;
  int error = 0;
  if (sqlite3_file_control(handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) != SQLITE_OK ||
      log == nullptr || log->pMethods == nullptr ||
      log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &error) != SQLITE_OK) {
    return 0;
  }
  return error;
}

// The log could not be written to: then the transaction is not in it.
bool is_read_only(int sqlite_code, int system_errno) {
  return (sqlite_code & 0xff) == SQLITE_READONLY ||
         (sqlite_code == SQLITE_IOERR_WRITE && system_errno == EROFS);
}

ErrorCode code_of(int sqlite_code, int system_errno) {
  // SQLite takes only ENOSPC for a full disk.
  if (sqlite_code == SQLITE_IOERR_WRITE && (system_errno == EDQUOT || system_errno == EFBIG)) {
    return ErrorCode::store_full;
  }
  switch (sqlite_code & 0xff) {
    case SQLITE_FULL:
      return ErrorCode::store_full;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return ErrorCode::state_corrupt;
    case SQLITE_CONSTRAINT:
      return ErrorCode::illegal_transition;
    default:
      return ErrorCode::unavailable;
  }
}

std::string advice(ErrorCode code, bool read_only) {
  if (read_only) return " Its file system is read-only; make it writable, then try again.";
  if (code == ErrorCode::store_full) {
    return " Free some space on the disk that holds the store, then try again.";
  }
  if (code == ErrorCode::state_corrupt) {
    return " Nothing was changed; restore the store from a backup or look at it with sqlite3.";
  }
  return {};
}

class SqliteRow final : public Row {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) : statement_(statement) {}

  bool null(int column) const override {
    return sqlite3_column_type(statement_, column) == SQLITE_NULL;
  }
  std::int64_t integer(int column) const override {
    return sqlite3_column_int64(statement_, column);
  }
  std::string_view text(int column) const override {
    const void* bytes = sqlite3_column_blob(statement_, column);
    const int size = sqlite3_column_bytes(statement_, column);
    if (bytes == nullptr || size <= 0) return {};
    return {static_cast<const char*>(bytes), static_cast<std::size_t>(size)};
  }

 private:
  sqlite3_stmt* statement_;
};

// Puts a statement back into its cache state whatever happens in between.
class Use {
 public:
  explicit Use(sqlite3_stmt* statement) : statement_(statement) {}
  ~Use() {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  sqlite3_stmt* statement_;
};

int bind_one(sqlite3_stmt* statement, int index, const Param& param) {
  // The bound bytes outlive the statement's use: Params borrow for the whole call.
  switch (param.kind()) {
    case Param::Kind::null:
      return sqlite3_bind_null(statement, index);
    case Param::Kind::integer:
      return sqlite3_bind_int64(statement, index, param.integer());
    case Param::Kind::text:
      return sqlite3_bind_text64(statement, index, param.text().data() ? param.text().data() : "",
                                 param.text().size(), SQLITE_STATIC, SQLITE_UTF8);
    case Param::Kind::bytes:
      return sqlite3_bind_blob64(statement, index, param.text().data() ? param.text().data() : "",
                                 param.text().size(), SQLITE_STATIC);
  }
  return SQLITE_MISUSE;
}

}  // namespace

std::string number_parameters(std::string_view sql) {
  std::string out;
  out.reserve(sql.size());
  bool quoted = false;
  for (std::size_t i = 0; i < sql.size(); ++i) {
    const char c = sql[i];
    if (c == '\'') quoted = !quoted;
    const bool parameter =
        !quoted && c == '$' && i + 1 < sql.size() && sql[i + 1] >= '0' && sql[i + 1] <= '9';
    out.push_back(parameter ? '?' : c);
  }
  return out;
}

Result<std::unique_ptr<SqliteDatabase>> SqliteDatabase::open(const std::string& path,
                                                             OpenMode mode) {
  // The allocator's statistics cost a lock per allocation, and nobody reads them.
  static const int configured = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  static_cast<void>(configured);  // refused once the library is in use: then they are kept
  const int flags = (mode == OpenMode::read_only ? SQLITE_OPEN_READONLY
                                                 : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
                    SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  sqlite3* handle = nullptr;
  const int opened = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  std::unique_ptr<SqliteDatabase> database(new SqliteDatabase(handle));
  if (opened != SQLITE_OK) return fail(database->error("open " + path));
  TRY(database->configure(mode));
  return database;
}

Result<void> SqliteDatabase::configure(OpenMode mode) {
  sqlite3_busy_timeout(handle_, kBusyTimeoutMs);
  // A store is nobody's to shape from inside: no attached files, no clever tricks of a planted
  // schema.
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  TRY(script("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA foreign_keys=OFF;"));
  if (mode == OpenMode::read_only) return script("PRAGMA query_only=ON;");
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  return script(
      "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=2000;"
      "PRAGMA temp_store=MEMORY; PRAGMA cache_size=-16000;");
}

void SqliteDatabase::accept_store() {
  accepted_ = true;
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
}

SqliteDatabase::~SqliteDatabase() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  if (accepted_) {
    // So that the file alone is the store once nobody serves it. A reader that is in the way may
    // be.
    sqlite3_busy_timeout(handle_, 0);
    sqlite3_wal_checkpoint_v2(handle_, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  }
  sqlite3_close(handle_);
}

Error SqliteDatabase::error(std::string_view sql) const {
  const int code = handle_ == nullptr ? SQLITE_NOMEM : sqlite3_extended_errcode(handle_);
  const int system = code == SQLITE_IOERR_WRITE ? log_errno(handle_) : 0;
  const ErrorCode ours = code_of(code, system);
  const bool read_only = is_read_only(code, system);
  wrote_nothing_ = read_only || ours == ErrorCode::store_full;
  const char* text = handle_ == nullptr ? "out of memory" : sqlite3_errmsg(handle_);
  if (ours == ErrorCode::state_corrupt && damaged_) damaged_(text);
  return Error{ours, "The store refused: " + std::string(text) + " (SQLite " +
                         std::to_string(code) + ", at \"" + std::string(sql.substr(0, 60)) +
                         "\")." + advice(ours, read_only)};
}

Result<sqlite3_stmt*> SqliteDatabase::prepare(std::string_view sql) {
  if (const auto found = statements_.find(sql); found != statements_.end()) return found->second;
  sqlite3_stmt* statement = nullptr;
  const std::string numbered = number_parameters(sql);
  const int code = sqlite3_prepare_v3(handle_, numbered.c_str(), static_cast<int>(numbered.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return fail(error(sql));
  statements_.emplace(std::string(sql), statement);
  return statement;
}

Result<sqlite3_stmt*> SqliteDatabase::bind(std::string_view sql, Params params) {
  TRY_ASSIGN(sqlite3_stmt * statement, prepare(sql));
  CHECK(static_cast<std::size_t>(sqlite3_bind_parameter_count(statement)) <= params.size());
  int index = 1;
  for (const Param& param : params) {
    if (index > sqlite3_bind_parameter_count(statement)) break;
    if (bind_one(statement, index++, param) != SQLITE_OK) return fail(error(sql));
  }
  return statement;
}

Result<std::int64_t> SqliteDatabase::run(std::string_view sql, Params params) {
  TRY_ASSIGN(sqlite3_stmt * statement, bind(sql, params));
  const Use use(statement);
  int code = SQLITE_ROW;
  while (code == SQLITE_ROW) code = sqlite3_step(statement);
  if (code != SQLITE_DONE) return fail(error(sql));
  return sqlite3_changes64(handle_);
}

Result<void> SqliteDatabase::each(std::string_view sql, Params params, const EachRow& each) {
  TRY_ASSIGN(sqlite3_stmt * statement, bind(sql, params));
  const Use use(statement);
  const SqliteRow row(statement);
  for (;;) {
    const int code = sqlite3_step(statement);
    if (code == SQLITE_DONE) return {};
    if (code != SQLITE_ROW) return fail(error(sql));
    TRY(each(row));
  }
}

void SqliteDatabase::stop_when(const std::atomic<bool>& stop) {
  constexpr int kSteps = 10'000;
  const auto look = [](void* flag) -> int {
    return static_cast<const std::atomic<bool>*>(flag)->load() ? 1 : 0;
  };
  // SQLite gives the pointer back as it was.
  sqlite3_progress_handler(handle_, kSteps, look, const_cast<std::atomic<bool>*>(&stop));
}

std::map<std::string, std::uint64_t> SqliteDatabase::steps() const {
  std::map<std::string, std::uint64_t> steps;
  for (const auto& [sql, statement] : statements_) {
    steps[sql] =
        static_cast<std::uint64_t>(sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 0));
  }
  return steps;
}

Result<void> SqliteDatabase::script(std::string_view sql) {
  const std::string text(sql);
  if (sqlite3_exec(handle_, text.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return fail(error(sql));
  }
  return {};
}

namespace {

Result<void> done(const Result<std::int64_t>& ran) {
  if (!ran) return fail(ran.error());
  return {};
}

}  // namespace

Result<void> SqliteDatabase::begin() { return done(run("BEGIN IMMEDIATE", {})); }
Result<void> SqliteDatabase::commit() { return done(run("COMMIT", {})); }
Result<void> SqliteDatabase::savepoint() { return done(run("SAVEPOINT one", {})); }
Result<void> SqliteDatabase::release() { return done(run("RELEASE one", {})); }

Result<void> SqliteDatabase::rollback_to() {
  TRY(done(run("ROLLBACK TO one", {})));
  return release();
}

void SqliteDatabase::rollback() {
  if (!in_transaction()) return;
  // A rollback that fails leaves the transaction open; the next begin will say so.
  static_cast<void>(run("ROLLBACK", {}));
}

bool SqliteDatabase::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

}  // namespace waybill::store
