#include "store/open.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>

#include "base/unique_fd.h"
#include "store/jobs.h"
#include "store/outputs.h"
#include "store/random.h"
#include "store/retention.h"
#include "store/schema_text.h"
#include "store/sealer.h"

namespace waybill::store {
namespace {

constexpr std::string_view kKeyContext = "the key of this store";

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

std::string for_sqlite(std::string text) {
  replace_all(text, "BIGINT", "INTEGER");
  replace_all(text, "BYTEA", "BLOB");
  replace_all(text, "__STRICT__", "STRICT");
  return text;
}

// What the store learned since version 1: the script, and what it asks of rows that are there.
struct SchemaStep {
  int version;
  std::string_view script;
  Result<void> (*fill)(Database&, WallTime now);
  std::string_view guards = {};  // triggers, as SQLite has them
};
constexpr SchemaStep kSchemaSteps[] = {
    {2, kSchemaClients, nullptr},
    {3, kSchemaLaunch, nullptr},
    {4, kSchemaOutput, [](Database& db, WallTime) { return fill_outputs(db); }},
    {5, kSchemaRetention, fill_retention, kSchemaRetentionGuardsSqlite},
    {6, kSchemaNode, nullptr},
    {7, kSchemaBackup, nullptr, kSchemaBackupGuardsSqlite},
};

Result<void> run_step(SqliteDatabase& database, const SchemaStep& step) {
  TRY(database.script(for_sqlite(std::string(step.script))));
  return database.script(step.guards);
}

Result<void> create_schema(SqliteDatabase& database, const Clock& clock) {
  TRY(database.begin());
  const auto create = [&]() -> Result<void> {
    TRY(database.script(for_sqlite(std::string(kSchemaCore))));
    TRY(database.script(kSchemaGuardsSqlite));
    for (const SchemaStep& step : kSchemaSteps) {
      TRY(run_step(database, step));
    }
    const std::string insert = "INSERT INTO meta (key, value) VALUES ($1, $2)";
    TRY(database.run(insert, {"schema_version", std::to_string(kSchemaVersion)}));
    TRY(database.run(insert, {"incarnation", random_id("s", clock)}));
    TRY(database.run(insert, {"created_at", format_rfc3339(clock.wall())}));
    return database.commit();
  };
  auto created = create();
  if (!created) database.rollback();
  return created;
}

// "" when there is none.
Result<std::string> meta_or_none(SqliteDatabase& database, std::string_view key) {
  std::string value;
  TRY(database.each("SELECT value FROM meta WHERE key = $1", {key},
                    [&](const Row& row) -> Result<void> {
                      value = row.string(0);
                      return {};
                    }));
  return value;
}

Result<std::string> meta(SqliteDatabase& database, std::string_view key) {
  TRY_ASSIGN(std::string value, meta_or_none(database, key));
  if (value.empty()) {
    return fail(ErrorCode::state_corrupt,
                "The store has no \"" + std::string(key) +
                    "\" entry; it is not a Waybill store or is damaged. It was left as it is.");
  }
  return value;
}

// The version of the store, which this program can serve.
Result<int> check_version(SqliteDatabase& database) {
  TRY_ASSIGN(const std::string text, meta(database, "schema_version"));
  int version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc{} || end != text.data() + text.size() || version < 1) {
    return fail(ErrorCode::state_corrupt, "The store's schema version \"" + text +
                                              "\" is not a number; it was left as it is.");
  }
  if (version > kSchemaVersion) {
    return fail(ErrorCode::store_newer, "The store has schema version " + text +
                                            " and this Waybill knows up to " +
                                            std::to_string(kSchemaVersion) +
                                            ". Run the newer Waybill; nothing was changed.");
  }
  return version;
}

// Forward only; all steps in one transaction with the number that they lead to.
Result<void> migrate(SqliteDatabase& database, int version, WallTime now) {
  if (version >= kSchemaVersion) return {};
  TRY(database.begin());
  const auto migrated = [&]() -> Result<void> {
    for (const SchemaStep& step : kSchemaSteps) {
      if (step.version <= version) continue;
      TRY(run_step(database, step));
      if (step.fill != nullptr) TRY(step.fill(database, now));
    }
    TRY(database.run("UPDATE meta SET value = $1 WHERE key = 'schema_version'",
                     {std::to_string(kSchemaVersion)}));
    return database.commit();
  };
  auto done = migrated();
  if (!done) database.rollback();
  return done;
}

// A start costs what is live, and not what was ever recorded: a larger file is read as a whole
// while it is served.
constexpr std::uint64_t kCheckedAtStart = 4ULL * 1024 * 1024;

// A file that ends inside a page was cut, unless the log beside it still has what belongs there.
// SQLite itself would read the missing bytes as zeros.
Result<void> check_length(const std::string& path, std::uint64_t size) {
  struct stat log{};
  if (::stat((path + "-wal").c_str(), &log) == 0 && log.st_size > 0) return {};
  std::array<unsigned char, 18> header{};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(header.data()), header.size());
  std::uint64_t page = (std::uint64_t{header[16]} << 8U) + header[17];
  if (page == 1) page = 65536;
  if (file && page >= 512 && size % page == 0) return {};
  return fail(ErrorCode::state_corrupt,
              "The store " + path + " is cut short: it has " + std::to_string(size) +
                  " bytes, which are not whole pages. It was left as it is; restore a backup.");
}

// Space for the log beyond what it grows to by itself, so that ends, stops and acknowledgements are
// still committed when the disk is full. Only where that leaves most of the disk free; the file's
// size stays what it is. Best effort.
void reserve_log(const std::string& path) {
  constexpr std::uint64_t kLogMost = 12ULL * 1024 * 1024;
  constexpr std::uint64_t kLogLeast = 1024ULL * 1024;
  constexpr std::uint64_t kOneOf = 4;
  const UniqueFd log(::open((path + "-wal").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  struct statvfs disk{};
  if (!log.valid() || ::fstatvfs(log.get(), &disk) != 0) return;
  const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  const std::uint64_t bytes = std::min(kLogMost, free / kOneOf);
  if (bytes < kLogLeast) return;
  static_cast<void>(::fallocate(log.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)));
}

// A log that ends inside a frame: whoever wrote it was stopped, or the file was cut. SQLite takes
// what is whole and leaves the rest.
std::string cut_tail_of_log(const std::string& path) {
  constexpr std::uint64_t kHeader = 32;
  constexpr std::uint64_t kFrameHeader = 24;
  std::array<unsigned char, kHeader> header{};
  std::ifstream log(path + "-wal", std::ios::binary);
  log.read(reinterpret_cast<char*>(header.data()), header.size());
  struct stat info{};
  if (!log || ::stat((path + "-wal").c_str(), &info) != 0) return {};
  const std::uint64_t page = (std::uint64_t{header[8]} << 24U) + (std::uint64_t{header[9]} << 16U) +
                             (std::uint64_t{header[10]} << 8U) + header[11];
  const std::uint64_t rest =
      (static_cast<std::uint64_t>(info.st_size) - kHeader) % (page + kFrameHeader);
  if (page < 512 || rest == 0) return {};
  return "the store's log ended inside a frame: its last " + std::to_string(rest) +
         " bytes were dropped, and the commits before them are kept";
}

Result<Lineage> lineage_of(SqliteDatabase& database, const std::string& incarnation) {
  Lineage lineage;
  lineage.incarnation = incarnation;
  TRY_ASSIGN(lineage.before, meta_or_none(database, "incarnation_before"));
  TRY_ASSIGN(lineage.newest, max_node_seq(database));
  TRY_ASSIGN(const std::string marked, meta_or_none(database, "marked"));
  lineage.marked = !marked.empty();
  TRY_ASSIGN(const std::int64_t copies,
             database.integer("SELECT count(*) FROM sqlite_master WHERE name = 'backup'", {}));
  lineage.copy = copies > 0;
  return lineage;
}

Result<bool> has_tables(SqliteDatabase& database) {
  TRY_ASSIGN(const std::int64_t tables,
             database.integer("SELECT count(*) FROM sqlite_master WHERE type = 'table'", {}));
  return tables > 0;
}

}  // namespace

bool is_checked_at_start(const std::string& path) {
  std::uint64_t size = 0;
  for (const char* part : {"", "-wal"}) {
    struct stat file{};
    if (::stat((path + part).c_str(), &file) == 0) size += static_cast<std::uint64_t>(file.st_size);
  }
  return size <= kCheckedAtStart;
}

// A chopped or scribbled file is found here.
Result<void> check_whole(SqliteDatabase& database) {
  std::string verdict;
  TRY(database.each("PRAGMA quick_check(1)", {}, [&](const Row& row) -> Result<void> {
    if (verdict.empty()) verdict = row.string(0);
    return {};
  }));
  if (verdict == "ok") return {};
  return fail(ErrorCode::state_corrupt,
              "The store is damaged: " + verdict +
                  ". Nothing is changed and nothing is started; restore a backup or repair it with "
                  "sqlite3.");
}

// What SQLite would follow, wait on or mix up.
// Somebody else's database. Nothing of it is changed, not even the way in which it is written.
Result<void> check_ours(SqliteDatabase& database, const std::string& path) {
  TRY_ASSIGN(const std::int64_t ours,
             database.integer("SELECT count(*) FROM sqlite_master WHERE name = 'meta'", {}));
  if (ours > 0) return {};
  return fail(ErrorCode::state_corrupt,
              path +
                  " is a database, but not a store of Waybill's. It was left as it is; put the "
                  "store itself there, or move that file away.");
}

Result<void> check_store_files(const std::string& path) {
  struct stat file{};
  if (::lstat(path.c_str(), &file) != 0) return {};  // a new one, or it is said when it is opened
  if (!S_ISREG(file.st_mode)) {
    return fail(ErrorCode::state_corrupt,
                "The store " + path +
                    " is not a regular file; it was left as it is. Put the store itself there.");
  }
  if (file.st_size == 0) return {};
  TRY(check_length(path, static_cast<std::uint64_t>(file.st_size)));
  // A store is written through its log from the beginning. One that says otherwise was put here as
  // a whole, and a log beside it belongs to the one before: SQLite would play it into this one.
  std::array<char, 20> header{};
  std::ifstream(path, std::ios::binary).read(header.data(), header.size());
  struct stat log{};
  const bool has_log = ::stat((path + "-wal").c_str(), &log) == 0 && log.st_size > 0;
  if (header[18] != 1) return {};
  if (!has_log) {
    TRY_ASSIGN(const auto whole, SqliteDatabase::open(path, OpenMode::read_only));
    TRY_ASSIGN(const bool filled, has_tables(*whole));
    return filled ? check_ours(*whole, path) : Result<void>{};
  }
  return fail(ErrorCode::state_corrupt,
              "The store " + path +
                  " was put here while the log of another one lay beside it. Nothing was changed; "
                  "move " +
                  path + "-wal and " + path + "-shm away, then start again.");
}

Result<OpenedStore> open_store(const std::string& path, const Clock& clock) {
  OpenedStore store;
  store.path = path;
  const bool small = is_checked_at_start(path);  // opening may make its log part of it
  TRY(check_store_files(path));
  store.remark = cut_tail_of_log(path);
  TRY_ASSIGN(store.writer, SqliteDatabase::open(path, OpenMode::read_write));
  TRY_ASSIGN(const bool filled, has_tables(*store.writer));
  if (!filled) {
    TRY(create_schema(*store.writer, clock));
    store.created = true;
  } else {
    TRY(check_ours(*store.writer, path));
    TRY_ASSIGN(const int version, check_version(*store.writer));
    if (small) TRY(check_whole(*store.writer));
    TRY(migrate(*store.writer, version, clock.wall()));
  }
  TRY_ASSIGN(store.incarnation, meta(*store.writer, "incarnation"));
  TRY_ASSIGN(store.lineage, lineage_of(*store.writer, store.incarnation));
  reserve_log(path);
  return store;
}

Result<void> renew_incarnation(Database& db, const Sealer& sealer, const std::string& before,
                               const std::string& incarnation) {
  const std::string put =
      "INSERT INTO meta (key, value) VALUES ($1, $2) "
      "ON CONFLICT (key) DO UPDATE SET value = excluded.value";
  TRY(db.run(put, {"incarnation", incarnation}));
  TRY(db.run(put, {"incarnation_before", before}));
  TRY(db.run("DELETE FROM key_check", {}));
  TRY(db.run("INSERT INTO key_check (value) VALUES ($1)",
             {Bytes{sealer.seal(incarnation, kKeyContext)}}));
  return db.script("DROP TABLE IF EXISTS backup;");
}

Result<void> expect_mark(Database& db) {
  TRY(db.run("INSERT INTO meta (key, value) VALUES ('marked', 'yes') ON CONFLICT (key) DO NOTHING",
             {}));
  return {};
}

Result<void> bind_key(OpenedStore& store, const Sealer& sealer) {
  std::string sealed;
  TRY(store.writer->each("SELECT value FROM key_check", {}, [&](const Row& row) -> Result<void> {
    sealed = row.string(0);
    return {};
  }));
  if (sealed.empty()) {
    TRY(store.writer->run("INSERT INTO key_check (value) VALUES ($1)",
                          {Bytes{sealer.seal(store.incarnation, kKeyContext)}}));
    store.writer->accept_store();
    return {};
  }
  const auto opened = sealer.unseal(sealed, kKeyContext);
  if (opened && *opened == store.incarnation) {
    store.writer->accept_store();
    return {};
  }
  return fail(
      ErrorCode::state_corrupt,
      "The key file seal.key is not the one of this store; nothing was changed. Restore the key "
      "that belongs to it.");
}

Result<std::unique_ptr<SqliteDatabase>> open_reader(const std::string& path) {
  return SqliteDatabase::open(path, OpenMode::read_only);
}

}  // namespace waybill::store
