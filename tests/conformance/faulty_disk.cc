#include "faulty_disk.h"

#include <sqlite3.h>

#include <atomic>
#include <cerrno>

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
  return real_of(file)->xWrite(file, bytes, size, offset);
}

int sync(sqlite3_file* file, int flags) {
  if (current == Fault::sync_broken) return SQLITE_IOERR_FSYNC;
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
  const int opened = real->xOpen(real, name, file, flags, out);
  if (opened != SQLITE_OK || file->pMethods == nullptr) return opened;
  for (Methods& known : methods) {
    if (known.real == nullptr) {
      known = {*file->pMethods, file->pMethods};
      known.ours.xWrite = write;
      known.ours.xSync = sync;
      known.ours.xFileControl = control;
    }
    if (known.real != file->pMethods) continue;
    file->pMethods = &known.ours;
    break;
  }
  return opened;
}

}  // namespace

void set_fault(Fault fault) {
  if (real == nullptr) {
    real = sqlite3_vfs_find(nullptr);
    vfs = *real;
    vfs.zName = "waybill-faulty";
    vfs.xOpen = open;
    sqlite3_vfs_register(&vfs, 1);
  }
  current = fault;
}

}  // namespace waybill::test
