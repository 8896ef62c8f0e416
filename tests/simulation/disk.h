#pragma once
// A disk in memory under SQLite. It knows what was synced: when the power is lost, of everything
// else some arrives, some does not, and some sectors do. A kill of the daemon loses nothing that
// was written. It can be full, read-only or broken, at any write.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "random.h"

namespace waybill::sim {

enum class Trouble { none, full, quota, read_only, write_broken, sync_broken, read_broken };

struct DiskFile {
  struct Change {
    std::uint64_t offset = 0;
    std::string bytes;
    bool cut = false;  // the file ends at `offset` from here on
  };
  std::string now;      // what a reader sees
  std::string durable;  // what surely survives the loss of power
  std::vector<Change> unsynced;

  // Shared memory of a write-ahead log, and locks; gone with the last connection.
  std::vector<std::unique_ptr<std::string>> regions;
  int region_users = 0;
  int region_shared[8] = {};
  bool region_exclusive[8] = {};
  int shared = 0;
  const void* reserved = nullptr;
  const void* exclusive = nullptr;
};

class Disk {
 public:
  explicit Disk(Random& random) : random_(random) {}
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  // SQLite works on this disk from now on.
  void use();

  // A copy of all contents; nobody may have a file open.
  std::map<std::string, std::string> image() const;
  void load(const std::map<std::string, std::string>& image);

  // The daemon is dead from this moment: what it still does is undone by `bury`.
  void freeze() { frozen_ = true; }
  // Returns the number of changes that did not survive, whole or in part.
  struct Losses {
    int lost = 0;
    int torn = 0;
  };
  Losses bury(bool power_lost);

  // From the n-th write or sync on (1: the next), for so many operations; 0: until it is cleared.
  void plan(Trouble trouble, int after, int operations);
  void clear_trouble();
  bool troubled() const { return trouble_ != Trouble::none; }
  int failed() const { return failed_; }

  // Trouble and moments count only while the daemon works, not while a test looks.
  void daemon_works(bool works) { works_ = works; }
  class Looking {  // a test looks, perhaps in the middle of an answer
   public:
    explicit Looking(Disk& disk) : disk_(disk), worked_(disk.works_) { disk.works_ = false; }
    ~Looking() { disk_.works_ = worked_; }
    Looking(const Looking&) = delete;
    Looking& operator=(const Looking&) = delete;

   private:
    Disk& disk_;
    bool worked_;
  };
  std::function<void(const char*)> moment;  // each write, each sync

  // For the file layer.
  DiskFile& file(const std::string& name);
  bool has(const std::string& name) const { return files_.contains(name); }
  void remove(const std::string& name);
  int write(DiskFile& file, std::uint64_t offset, std::string bytes);
  int cut(DiskFile& file, std::uint64_t size);
  int sync(DiskFile& file);
  bool read_fails();
  int last_errno() const { return errno_; }
  Random& random() { return random_; }

 private:
  struct Undo {
    std::string name;  // of a file that was removed
    std::unique_ptr<DiskFile> removed;
    DiskFile* file = nullptr;
    std::uint64_t offset = 0;
    std::string old;
    std::uint64_t size = 0;
  };
  int fails(bool sync);
  void change(DiskFile& file, DiskFile::Change change);

  Random& random_;
  std::map<std::string, std::unique_ptr<DiskFile>> files_;
  std::vector<std::unique_ptr<DiskFile>> removed_;
  std::vector<Undo> undo_;
  bool frozen_ = false;
  bool works_ = false;
  Trouble trouble_ = Trouble::none;
  int trouble_after_ = 0;
  int trouble_left_ = 0;
  bool trouble_ends_ = false;
  int failed_ = 0;
  int errno_ = 0;
};

}  // namespace waybill::sim
