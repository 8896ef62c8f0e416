// SQLite's file layer over the disk in memory. One thread, several connections.

#include <sqlite3.h>

#include <cstring>
#include <ctime>

#include "disk.h"

namespace waybill::sim {
namespace {

Disk* disk = nullptr;
sqlite3_vfs vfs;

struct Open {
  sqlite3_file base;  // first: SQLite knows only this
  DiskFile* file;
  int level;  // of the lock
  unsigned shared;
  unsigned exclusive;
  bool regions;
};

Open& of(sqlite3_file* file) { return *reinterpret_cast<Open*>(file); }

void let_go(Open& open, int level) {
  DiskFile& file = *open.file;
  if (level < SQLITE_LOCK_EXCLUSIVE && file.exclusive == &open) file.exclusive = nullptr;
  if (level < SQLITE_LOCK_RESERVED && file.reserved == &open) file.reserved = nullptr;
  if (level < SQLITE_LOCK_SHARED && open.level >= SQLITE_LOCK_SHARED) --file.shared;
  open.level = level;
}

int unmap(sqlite3_file* handle, int) {
  Open& open = of(handle);
  if (!open.regions) return SQLITE_OK;
  open.regions = false;
  DiskFile& file = *open.file;
  for (unsigned lock = 0; lock < 8; ++lock) {
    if ((open.shared >> lock & 1U) != 0) --file.region_shared[lock];
    if ((open.exclusive >> lock & 1U) != 0) file.region_exclusive[lock] = false;
  }
  open.shared = open.exclusive = 0;
  if (file.region_users > 0 && --file.region_users == 0) file.regions.clear();
  return SQLITE_OK;
}

int close(sqlite3_file* handle) {
  unmap(handle, 0);
  let_go(of(handle), SQLITE_LOCK_NONE);
  return SQLITE_OK;
}

int read(sqlite3_file* handle, void* bytes, int size, sqlite3_int64 offset) {
  if (disk->read_fails()) return SQLITE_IOERR_READ;
  const std::string& content = of(handle).file->now;
  const auto want = static_cast<std::size_t>(size);
  const auto from = static_cast<std::size_t>(offset);
  const std::size_t have = from < content.size() ? std::min(want, content.size() - from) : 0;
  if (have > 0) std::memcpy(bytes, content.data() + from, have);
  if (have == want) return SQLITE_OK;
  std::memset(static_cast<char*>(bytes) + have, 0, want - have);
  return SQLITE_IOERR_SHORT_READ;
}

int write(sqlite3_file* handle, const void* bytes, int size, sqlite3_int64 offset) {
  return disk->write(*of(handle).file, static_cast<std::uint64_t>(offset),
                     std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size)));
}

int cut(sqlite3_file* handle, sqlite3_int64 size) {
  return disk->cut(*of(handle).file, static_cast<std::uint64_t>(size));
}

int sync(sqlite3_file* handle, int) { return disk->sync(*of(handle).file); }

int size_of(sqlite3_file* handle, sqlite3_int64* size) {
  *size = static_cast<sqlite3_int64>(of(handle).file->now.size());
  return SQLITE_OK;
}

int lock(sqlite3_file* handle, int level) {
  Open& open = of(handle);
  DiskFile& file = *open.file;
  if (open.level >= level) return SQLITE_OK;
  if (file.exclusive != nullptr && file.exclusive != &open) return SQLITE_BUSY;
  if (level >= SQLITE_LOCK_RESERVED && file.reserved != nullptr && file.reserved != &open) {
    return SQLITE_BUSY;
  }
  if (level == SQLITE_LOCK_EXCLUSIVE && file.shared > (open.level >= SQLITE_LOCK_SHARED ? 1 : 0)) {
    return SQLITE_BUSY;
  }
  if (open.level < SQLITE_LOCK_SHARED) ++file.shared;
  if (level >= SQLITE_LOCK_RESERVED) file.reserved = &open;
  if (level == SQLITE_LOCK_EXCLUSIVE) file.exclusive = &open;
  open.level = level;
  return SQLITE_OK;
}

int unlock(sqlite3_file* handle, int level) {
  let_go(of(handle), level);
  return SQLITE_OK;
}

int reserved(sqlite3_file* handle, int* out) {
  *out = of(handle).file->reserved != nullptr ? 1 : 0;
  return SQLITE_OK;
}

int control(sqlite3_file*, int op, void* argument) {
  if (op != SQLITE_FCNTL_LAST_ERRNO) return SQLITE_NOTFOUND;
  *static_cast<int*>(argument) = disk->last_errno();
  return SQLITE_OK;
}

int sector(sqlite3_file*) { return 4096; }
int traits(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

int map(sqlite3_file* handle, int number, int size, int extend, void volatile** out) {
  Open& open = of(handle);
  DiskFile& file = *open.file;
  if (!open.regions) {
    open.regions = true;
    ++file.region_users;
  }
  const auto at = static_cast<std::size_t>(number);
  *out = nullptr;
  if (file.regions.size() <= at && extend == 0) return SQLITE_OK;
  while (file.regions.size() <= at) {
    file.regions.push_back(std::make_unique<std::string>(static_cast<std::size_t>(size), '\0'));
  }
  *out = file.regions[at]->data();
  return SQLITE_OK;
}

int lock_regions(sqlite3_file* handle, int first, int count, int flags) {
  Open& open = of(handle);
  DiskFile& file = *open.file;
  const bool shared = (flags & SQLITE_SHM_SHARED) != 0;
  const bool take = (flags & SQLITE_SHM_LOCK) != 0;
  const auto from = static_cast<unsigned>(first);
  const unsigned to = from + static_cast<unsigned>(count);
  for (unsigned at = from; take && at < to; ++at) {
    const unsigned mine = open.shared >> at & 1U;
    const bool others = file.region_shared[at] > static_cast<int>(mine);
    const bool held = file.region_exclusive[at] && (open.exclusive >> at & 1U) == 0;
    if (held || (!shared && others)) return SQLITE_BUSY;
  }
  for (unsigned at = from; at < to; ++at) {
    const unsigned bit = 1U << at;
    if (shared) {
      if (take == ((open.shared & bit) != 0)) continue;
      open.shared ^= bit;
      file.region_shared[at] += take ? 1 : -1;
    } else {
      if (take == ((open.exclusive & bit) != 0)) continue;
      open.exclusive ^= bit;
      file.region_exclusive[at] = take;
    }
  }
  return SQLITE_OK;
}

void barrier(sqlite3_file*) {}

const sqlite3_io_methods kMethods{
    2,       close,  read,   write, cut,          sync,    size_of, lock,    unlock, reserved,
    control, sector, traits, map,   lock_regions, barrier, unmap,   nullptr, nullptr};

int open_file(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* handle, int flags, int* out) {
  Open& open = of(handle);
  open = Open{};
  if (name == nullptr) return SQLITE_CANTOPEN;
  if (!disk->has(name) && (flags & SQLITE_OPEN_CREATE) == 0) return SQLITE_CANTOPEN;
  open.file = &disk->file(name);
  open.base.pMethods = &kMethods;
  if (out != nullptr) *out = flags;
  return SQLITE_OK;
}

int remove_file(sqlite3_vfs*, const char* name, int) {
  disk->remove(name);
  return SQLITE_OK;
}

int access_file(sqlite3_vfs*, const char* name, int, int* out) {
  *out = disk->has(name) ? 1 : 0;
  return SQLITE_OK;
}

int full_name(sqlite3_vfs*, const char* name, int size, char* out) {
  sqlite3_snprintf(size, out, "%s", name);
  return SQLITE_OK;
}

int randomness(sqlite3_vfs*, int size, char* out) {
  disk->random().fill(out, static_cast<std::size_t>(size));
  return size;
}

int sleep_not(sqlite3_vfs*, int us) { return us; }

int now(sqlite3_vfs*, sqlite3_int64* out) {
  constexpr sqlite3_int64 kSomeDay = 212'000'000'000'000;
  *out = kSomeDay;
  return SQLITE_OK;
}

int last_error(sqlite3_vfs*, int, char*) { return 0; }

}  // namespace

void Disk::use() {
  if (vfs.zName == nullptr) {
    vfs.iVersion = 2;
    vfs.szOsFile = sizeof(Open);
    vfs.mxPathname = 256;
    vfs.zName = "waybill-simulation";
    vfs.xOpen = open_file;
    vfs.xDelete = remove_file;
    vfs.xAccess = access_file;
    vfs.xFullPathname = full_name;
    vfs.xRandomness = randomness;
    vfs.xSleep = sleep_not;
    vfs.xCurrentTimeInt64 = now;
    vfs.xGetLastError = last_error;
    sqlite3_vfs_register(&vfs, 1);
  }
  disk = this;
  sqlite3_randomness(0, nullptr);  // it is to ask again: the salts of a log are chance, too
}

Disk::~Disk() {
  if (disk == this) disk = nullptr;
}

}  // namespace waybill::sim
