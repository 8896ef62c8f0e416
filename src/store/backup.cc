#include "store/backup.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/crash_point.h"
#include "base/unique_fd.h"
#include "store/jobs.h"
#include "store/random.h"
#include "store/sqlite_database.h"

namespace waybill::store {
namespace {

constexpr int kBusyTimeoutMs = 15'000;
constexpr std::size_t kKeyBytes = 32;

Error cannot(const std::string& what, int error) {
  ErrorCode code = ErrorCode::unavailable;
  if (error == ENOSPC || error == EDQUOT) code = ErrorCode::store_full;
  if (error == EEXIST) code = ErrorCode::conflict;
  if (error == EACCES || error == EPERM || error == EROFS) code = ErrorCode::forbidden;
  return Error{code, "The backup " + what + ": " + std::string(strerrordesc_np(error)) + "."};
}

std::string folder_of(const std::string& path) {
  return path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
}

// The copy under its first name, which is removed unless it has got its own.
class Draft {
 public:
  explicit Draft(const std::string& target, const Clock& clock)
      : path_(folder_of(target) + "/." + random_id("backup", clock)) {}
  ~Draft() {
    for (const char* suffix : {"", "-journal", "-wal", "-shm"}) {
      ::unlink((path_ + suffix).c_str());
    }
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  const std::string& path() const { return path_; }

  Result<void> make() const {
    const UniqueFd file(
        ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.valid()) return {};
    return fail(cannot("cannot be written into " + folder_of(path_), errno));
  }

  // Durable content, then the name, which must be free, then the name durable.
  Result<void> become(const std::string& target) const {
    const UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    const UniqueFd folder(::open(folder_of(target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!file.valid() || !folder.valid() || ::fsync(file.get()) != 0) {
      return fail(cannot(target + " cannot be made durable", errno));
    }
    crash_point("backup.after_copy");
    if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) != 0 &&
        (errno != EINVAL || ::link(path_.c_str(), target.c_str()) != 0)) {
      return fail(cannot(target + " cannot be made", errno));
    }
    crash_point("backup.after_rename");
    if (::fsync(folder.get()) == 0) return {};
    return fail(cannot(target + " cannot be made durable", errno));
  }

 private:
  std::string path_;
};

struct Close {
  void operator()(sqlite3* handle) const { sqlite3_close(handle); }
};
using Handle = std::unique_ptr<sqlite3, Close>;

Error refused(sqlite3* handle, int code, const std::string& what) {
  ErrorCode ours = ErrorCode::unavailable;
  int system = 0;
  sqlite3_file* file = nullptr;
  if (handle != nullptr &&
      sqlite3_file_control(handle, "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK &&
      file != nullptr && file->pMethods != nullptr) {
    file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &system);
  }
  const int kind = code & 0xff;
  if (kind == SQLITE_FULL || (code == SQLITE_IOERR_WRITE && system == EDQUOT)) {
    ours = ErrorCode::store_full;
  }
  if (kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB) ours = ErrorCode::state_corrupt;
  return Error{ours, "The backup " + what + ": " + sqlite3_errstr(code) + " (SQLite " +
                         std::to_string(code) + ")." +
                         (ours == ErrorCode::store_full ? " Free some space, or choose another "
                                                          "place; nothing was left there."
                                                        : "")};
}

Result<Handle> open_raw(const std::string& path, int flags) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw,
                                   flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  Handle handle(raw);
  if (code != SQLITE_OK) return fail(refused(raw, code, "cannot open " + path));
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  return handle;
}

// All pages in one step: a snapshot, while the writer goes on through its log.
Result<void> copy_pages(const BackupOrder& order, const std::string& draft) {
  TRY_ASSIGN(const Handle from, open_raw(order.store, SQLITE_OPEN_READONLY));
  TRY_ASSIGN(const Handle to, open_raw(draft, SQLITE_OPEN_READWRITE));
  // Its own journal is of no use: a draft that is not whole is thrown away.
  sqlite3_exec(to.get(), "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF", nullptr, nullptr,
               nullptr);
  sqlite3_backup* copy = sqlite3_backup_init(to.get(), "main", from.get(), "main");
  if (copy == nullptr) {
    return fail(refused(to.get(), sqlite3_extended_errcode(to.get()), "cannot be begun"));
  }
  const int stepped = sqlite3_backup_step(copy, -1);
  const int finished = sqlite3_backup_finish(copy);
  if (stepped == SQLITE_DONE && finished == SQLITE_OK) return {};
  const int code = stepped == SQLITE_DONE ? finished : stepped;
  return fail(refused(to.get(), code, "of " + order.store + " cannot be made"));
}

Result<std::string> read_key(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  std::string key(kKeyBytes + 1, '\0');
  const ssize_t got = file.valid() ? ::read(file.get(), key.data(), key.size()) : -1;
  if (got != static_cast<ssize_t>(kKeyBytes)) {
    return fail(ErrorCode::state_corrupt,
                "The key file " + path + " cannot be read, and a backup without it is of no use.");
  }
  key.resize(kKeyBytes);
  return key;
}

// One file, no log beside it, with the key and the word that it is a copy.
Result<std::uint64_t> complete(const std::string& draft, const std::string& key,
                               const Clock& clock) {
  TRY_ASSIGN(const auto copy, SqliteDatabase::open(draft, OpenMode::read_write));
  TRY(copy->begin());
  TRY(
      copy->script("DROP TABLE IF EXISTS backup;"
                   "CREATE TABLE backup (taken_at INTEGER NOT NULL, key BLOB NOT NULL) STRICT;"));
  TRY(copy->run("INSERT INTO backup (taken_at, key) VALUES ($1, $2)", {clock.wall(), Bytes{key}}));
  TRY(copy->commit());
  TRY_ASSIGN(const std::uint64_t newest, max_node_seq(*copy));
  TRY(copy->script("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE;"));
  return newest;
}

}  // namespace

Result<BackupMade> make_backup(const BackupOrder& order, const Clock& clock) {
  struct stat info{};
  if (::lstat(order.target.c_str(), &info) == 0) {
    return fail(ErrorCode::conflict,
                order.target +
                    " is there already, and a backup replaces nothing; give another "
                    "name or move it away.");
  }
  TRY_ASSIGN(const std::string key, read_key(order.key));
  const Draft draft(order.target, clock);
  TRY(draft.make());
  TRY(copy_pages(order, draft.path()));
  BackupMade made;
  TRY_ASSIGN(made.newest_receipt, complete(draft.path(), key, clock));
  if (::stat(draft.path().c_str(), &info) == 0)
    made.bytes = static_cast<std::uint64_t>(info.st_size);
  TRY(draft.become(order.target));
  return made;
}

Result<std::optional<std::string>> key_of_backup(const std::string& store) {
  std::optional<std::string> none;
  TRY_ASSIGN(const auto database, SqliteDatabase::open(store, OpenMode::read_only));
  TRY_ASSIGN(const std::int64_t copies,
             database->integer("SELECT count(*) FROM sqlite_master WHERE name = 'backup'", {}));
  if (copies == 0) return none;
  return database->first<std::string>(
      "SELECT key FROM backup", {},
      [](const Row& row) -> Result<std::string> { return row.string(0); });
}

}  // namespace waybill::store
