#include "disk.h"

#include <sqlite3.h>

#include <algorithm>
#include <cerrno>

namespace waybill::sim {
namespace {

constexpr std::size_t kSector = 512;

void put(std::string& content, const DiskFile::Change& change) {
  if (change.cut) {
    content.resize(change.offset);
    return;
  }
  const std::size_t end = change.offset + change.bytes.size();
  if (content.size() < end) content.resize(end);
  content.replace(change.offset, change.bytes.size(), change.bytes);
}

// Of a write that was under way some sectors arrive.
void put_torn(std::string& content, const DiskFile::Change& change, Random& random) {
  std::size_t at = 0;
  while (at < change.bytes.size()) {
    const std::size_t left = kSector - (change.offset + at) % kSector;
    const std::size_t part = std::min(left, change.bytes.size() - at);
    if (random.chance(50)) {
      put(content, {change.offset + at, change.bytes.substr(at, part), false});
    }
    at += part;
  }
}

}  // namespace

Disk::Losses Disk::bury(bool power_lost) {
  for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) {
    if (undo->removed) {
      files_[undo->name] = std::move(undo->removed);
      continue;
    }
    undo->file->now.resize(std::max<std::size_t>(undo->file->now.size(), undo->size));
    undo->file->now.replace(undo->offset, undo->old.size(), undo->old);
    undo->file->now.resize(undo->size);
  }
  undo_.clear();
  removed_.clear();
  frozen_ = false;
  Losses losses;
  for (auto& [name, file] : files_) {
    file->regions.clear();
    file->region_users = 0;
    if (!power_lost) continue;
    for (const DiskFile::Change& change : file->unsynced) {
      const std::uint64_t fate = random_.below(3);
      if (fate == 0) {
        ++losses.lost;
      } else if (fate == 1 && !change.cut) {
        ++losses.torn;
        put_torn(file->durable, change, random_);
      } else {
        put(file->durable, change);
      }
    }
    file->unsynced.clear();
    file->now = file->durable;
  }
  return losses;
}

void Disk::plan(Trouble trouble, int after, int operations) {
  trouble_ = trouble;
  trouble_after_ = after;
  trouble_left_ = operations;
  trouble_ends_ = operations > 0;
  failed_ = 0;
}

void Disk::clear_trouble() { trouble_ = Trouble::none; }

// What this write or sync comes to.
int Disk::fails(bool sync) {
  if (!works_ || trouble_ == Trouble::none || frozen_) return SQLITE_OK;
  if (trouble_after_ > 1) {
    --trouble_after_;
    return SQLITE_OK;
  }
  if (sync != (trouble_ == Trouble::sync_broken)) return SQLITE_OK;
  const Trouble what = trouble_;
  if (what == Trouble::read_broken) return SQLITE_OK;
  ++failed_;
  if (trouble_ends_ && --trouble_left_ == 0) trouble_ = Trouble::none;
  switch (what) {
    case Trouble::full:
      errno_ = ENOSPC;
      return SQLITE_FULL;
    case Trouble::quota:
      errno_ = EDQUOT;
      return SQLITE_IOERR_WRITE;
    case Trouble::read_only:
      errno_ = EROFS;
      return SQLITE_IOERR_WRITE;
    case Trouble::sync_broken:
      errno_ = EIO;
      return SQLITE_IOERR_FSYNC;
    case Trouble::write_broken:
    case Trouble::read_broken:
    case Trouble::none:
      break;
  }
  errno_ = EIO;
  return SQLITE_IOERR_WRITE;
}

bool Disk::read_fails() {
  if (!works_ || trouble_ != Trouble::read_broken || frozen_) return false;
  if (trouble_after_ > 1) {
    --trouble_after_;
    return false;
  }
  ++failed_;
  errno_ = EIO;
  if (trouble_ends_ && --trouble_left_ == 0) trouble_ = Trouble::none;
  return true;
}

void Disk::change(DiskFile& file, DiskFile::Change change) {
  if (frozen_) {
    Undo undo;
    undo.file = &file;
    undo.offset = std::min<std::uint64_t>(change.offset, file.now.size());
    undo.size = file.now.size();
    const std::size_t length = change.cut ? std::string::npos : change.bytes.size();
    undo.old = file.now.substr(undo.offset, length);
    undo_.push_back(std::move(undo));
  }
  put(file.now, change);
  if (!frozen_) file.unsynced.push_back(std::move(change));
}

int Disk::write(DiskFile& file, std::uint64_t offset, std::string bytes) {
  if (works_ && moment) moment("write");
  if (const int failed = fails(false); failed != SQLITE_OK) return failed;
  change(file, {offset, std::move(bytes), false});
  return SQLITE_OK;
}

int Disk::cut(DiskFile& file, std::uint64_t size) {
  if (works_ && moment) moment("write");
  if (const int failed = fails(false); failed != SQLITE_OK) return failed;
  change(file, {size, {}, true});
  return SQLITE_OK;
}

int Disk::sync(DiskFile& file) {
  if (works_ && moment) moment("sync");
  if (const int failed = fails(true); failed != SQLITE_OK) return failed;
  if (frozen_) return SQLITE_OK;
  for (const DiskFile::Change& each : file.unsynced) put(file.durable, each);
  file.unsynced.clear();
  return SQLITE_OK;
}

DiskFile& Disk::file(const std::string& name) {
  std::unique_ptr<DiskFile>& there = files_[name];
  if (!there) there = std::make_unique<DiskFile>();
  return *there;
}

void Disk::remove(const std::string& name) {
  if (works_ && moment) moment("write");
  const auto found = files_.find(name);
  if (found == files_.end()) return;
  if (frozen_) {
    Undo undo;
    undo.name = name;
    undo.removed = std::move(found->second);
    undo_.push_back(std::move(undo));
  } else {
    removed_.push_back(std::move(found->second));  // somebody may have it open
  }
  files_.erase(found);
}

std::map<std::string, std::string> Disk::image() const {
  std::map<std::string, std::string> copy;
  for (const auto& [name, file] : files_) copy[name] = file->now;
  return copy;
}

void Disk::load(const std::map<std::string, std::string>& image) {
  files_.clear();
  for (const auto& [name, content] : image) {
    DiskFile& made = file(name);
    made.now = content;
    made.durable = content;
  }
}

}  // namespace waybill::sim
