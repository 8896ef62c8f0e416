#include "faulty_disk.h"

#include <sqlite3.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <optional>
#include <utility>

#include "crash_disk.h"

namespace waybill::test {
namespace {

std::atomic<Fault> current{Fault::none};
sqlite3_vfs* real = nullptr;
sqlite3_vfs vfs;

// SQLite has a table of functions for each way of locking; each is stood in front of once.
struct Methods {
  sqlite3_io_methods ours;  // first: a file points here
  const sqlite3_io_methods* real;
};
Methods methods[4];

const sqlite3_io_methods* real_of(sqlite3_file* file) {
  return reinterpret_cast<const Methods*>(file->pMethods)->real;
}

// ---- power failures ----------------------------------------------------------------------------

struct Power {
  DiskImages images;
  std::map<sqlite3_file*, std::string> names;
  std::uint64_t operations = 0;
  std::uint64_t fails_at = 0;
  bool failed = false;
};
std::optional<Power> power;

// The followed file's name; nullptr for one that is not followed.
const std::string* followed(sqlite3_file* file) {
  if (!power) return nullptr;
  const auto found = power->names.find(file);
  return found == power->names.end() ? nullptr : &found->second;
}

// One more operation. False: the power is gone, with this one under way or before it.
bool powered() {
  if (power->failed) return false;
  ++power->operations;
  power->failed = power->operations == power->fails_at;
  return !power->failed;
}

bool dark() { return power && power->failed; }

int read(sqlite3_file* file, void* bytes, int size, sqlite3_int64 offset) {
  if (dark() && followed(file) != nullptr) return SQLITE_IOERR_READ;
  return real_of(file)->xRead(file, bytes, size, offset);
}

int truncate(sqlite3_file* file, sqlite3_int64 size) {
  if (const std::string* name = followed(file)) {
    const bool before = power->failed;
    const bool on = powered();
    if (!before) power->images.truncated(*name, static_cast<std::uint64_t>(size));
    if (!on) return SQLITE_IOERR_TRUNCATE;
  }
  return real_of(file)->xTruncate(file, size);
}

int close(sqlite3_file* file) {
  const sqlite3_io_methods* methods_of_file = real_of(file);
  if (power) power->names.erase(file);
  return methods_of_file->xClose(file);
}

int remove(sqlite3_vfs*, const char* name, int sync_dir) {
  if (power) {
    const bool before = power->failed;
    const bool on = powered();
    if (!before) power->images.removed(name);
    if (!on) return SQLITE_IOERR_DELETE;
  }
  return real->xDelete(real, name, sync_dir);
}

// ---- every operation ---------------------------------------------------------------------------

int write(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 offset) {
  switch (current.load()) {
    case Fault::write_full:
      return SQLITE_FULL;
    case Fault::write_quota:
    case Fault::write_read_only:
    case Fault::write_broken:
      return SQLITE_IOERR_WRITE;
    case Fault::none:
    case Fault::sync_broken:
      break;
  }
  if (const std::string* name = followed(file)) {
    const bool before = power->failed;
    const bool on = powered();
    const std::string_view view(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
    if (!before) power->images.written(*name, static_cast<std::uint64_t>(offset), view);
    if (!on) return SQLITE_IOERR_WRITE;
  }
  return real_of(file)->xWrite(file, bytes, size, offset);
}

int sync(sqlite3_file* file, int flags) {
  if (current == Fault::sync_broken) return SQLITE_IOERR_FSYNC;
  if (const std::string* name = followed(file)) {
    if (!powered()) return SQLITE_IOERR_FSYNC;
    power->images.synced(*name);
    return SQLITE_OK;
  }
  return real_of(file)->xSync(file, flags);
}

int fault_errno() {
  switch (current.load()) {
    case Fault::write_quota:
      return EDQUOT;
    case Fault::write_read_only:
      return EROFS;
    case Fault::write_full:
      return ENOSPC;
    case Fault::write_broken:
    case Fault::sync_broken:
      return EIO;
    case Fault::none:
      break;
  }
  return 0;
}

int control(sqlite3_file* file, int op, void* argument) {
  if (op != SQLITE_FCNTL_LAST_ERRNO || current == Fault::none) {
    return real_of(file)->xFileControl(file, op, argument);
  }
  *static_cast<int*>(argument) = fault_errno();
  return SQLITE_OK;
}

int open(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* file, int flags, int* out) {
  if (dark()) return SQLITE_CANTOPEN;
  const int opened = real->xOpen(real, name, file, flags, out);
  if (opened != SQLITE_OK || file->pMethods == nullptr) return opened;
  for (Methods& known : methods) {
    if (known.real == nullptr) {
      known = {*file->pMethods, file->pMethods};
      known.ours.xClose = close;
      known.ours.xRead = read;
      known.ours.xTruncate = truncate;
      known.ours.xWrite = write;
      known.ours.xSync = sync;
      known.ours.xFileControl = control;
    }
    if (known.real != file->pMethods) continue;
    file->pMethods = &known.ours;
    break;
  }
  if (power && name != nullptr) {
    power->names.insert_or_assign(file, name);
    power->images.opened(name);
  }
  return opened;
}

void stand_in_front() {
  if (real != nullptr) return;
  real = sqlite3_vfs_find(nullptr);
  vfs = *real;
  vfs.zName = "waybill-faulty";
  vfs.xOpen = open;
  vfs.xDelete = remove;
  sqlite3_vfs_register(&vfs, 1);
}

}  // namespace

void set_fault(Fault fault) {
  stand_in_front();
  current = fault;
}

CrashDisk::CrashDisk() {
  stand_in_front();
  power.emplace();
}

CrashDisk::~CrashDisk() { power.reset(); }

void CrashDisk::crash_at(std::uint64_t operation) {
  power->operations = 0;
  power->fails_at = operation;
}

bool CrashDisk::crashed() const { return power->failed; }
std::uint64_t CrashDisk::operations() const { return power->operations; }

void CrashDisk::power_on(Unsynced unsynced, std::uint64_t seed) {
  power->images.fail(unsynced, seed);
  power->names.clear();
  power->failed = false;
  crash_at(0);
}

}  // namespace waybill::test
