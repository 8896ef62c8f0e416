#pragma once
// A small file system of its own, to be filled and freed. Needs root; where it cannot be had, `why`
// says so and the test is skipped with that.

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "e2e/harness.h"

namespace waybill::e2e {

class SmallDisk {
 public:
  enum class Kind { tmpfs, ext4 };

  explicit SmallDisk(int mebibytes = 8, Kind kind = Kind::tmpfs) {
    std::filesystem::create_directory(path());
    const std::string size = std::to_string(mebibytes) + "m";
    if (kind == Kind::tmpfs) {
      options_ = "size=" + size + ",mode=0755";
      if (::mount("waybill-e2e", path().c_str(), "tmpfs", 0, options_.c_str()) != 0) {
        why_ = "no file system of its own: not root";
      }
      return;
    }
    const std::string image = temp_.path() + "/image";
    const auto step = [&](std::vector<std::string> argv) {
      Launch launch;
      launch.argv = std::move(argv);
      if (why_.empty() && run(std::move(launch)).exit_code != 0) {
        why_ = "no ext4 on a loop device here: not root, no loop devices or no e2fsprogs";
      }
    };
    step({"/usr/bin/truncate", "-s", size, image});
    step({"/usr/sbin/mke2fs", "-q", "-F", "-m", "0", "-t", "ext4", image});
    step({"/usr/bin/mount", "-o", "loop", image, path()});
  }
  ~SmallDisk() {
    if (mounted()) ::umount2(path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return why_.empty(); }
  const std::string& why() const { return why_; }
  std::string path() const { return temp_.path() + "/disk"; }
  const std::string& options() const { return options_; }

  // To the last byte, in ever smaller pieces.
  void fill() {
    const int fd = ::open(ballast().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    for (std::size_t size = 1U << 20; size > 0;) {
      const std::string block(size, 'b');
      if (::write(fd, block.data(), size) <= 0) size /= 8;
    }
    ::fsync(fd);
    ::close(fd);
  }
  // One block, which is less than a launch needs.
  void free_one_block() {
    std::filesystem::resize_file(ballast(), std::filesystem::file_size(ballast()) - 4096);
  }
  void free() { std::filesystem::remove(ballast()); }

  std::uint64_t free_bytes() const {
    struct statvfs disk{};
    if (::statvfs(path().c_str(), &disk) != 0) return 0;
    return std::uint64_t{disk.f_bavail} * disk.f_frsize;
  }

 private:
  std::string ballast() const { return path() + "/ballast"; }

  TempDir temp_;
  std::string options_;
  std::string why_;
};

}  // namespace waybill::e2e
