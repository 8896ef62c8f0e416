#include "daemon/data_dir.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "daemon/socket.h"

namespace waybill::daemon {
namespace {

class DataDirTest : public testing::Test {
 protected:
  DataDirTest() {
    char name[] = "/tmp/waybill-dir-XXXXXX";
    base_ = ::mkdtemp(name);
  }
  ~DataDirTest() override { std::filesystem::remove_all(base_); }

  static unsigned mode_of(const std::string& path) {
    struct stat info{};
    return ::lstat(path.c_str(), &info) == 0 ? info.st_mode & 07777U : 0;
  }

  std::string base_;
};

TEST_F(DataDirTest, O29_is_created_private_with_its_parents) {
  const mode_t before = ::umask(077);
  const auto dir = open_data_dir(base_ + "/a/b/data/");
  ::umask(before);
  ASSERT_TRUE(dir) << dir.error().message;
  EXPECT_EQ(dir->path, base_ + "/a/b/data");
  EXPECT_EQ(mode_of(dir->path), 0700U);
  EXPECT_EQ(mode_of(base_ + "/a"), 0700U);
}

TEST_F(DataDirTest, O29_open_to_others_is_refused_and_left_alone) {
  const std::string path = base_ + "/open";
  std::filesystem::create_directory(path);
  ASSERT_EQ(::chmod(path.c_str(), 0750), 0);
  const auto dir = open_data_dir(path);
  ASSERT_FALSE(dir);
  EXPECT_EQ(dir.error().code, ErrorCode::forbidden);
  EXPECT_NE(dir.error().message.find("chmod 700 " + path), std::string::npos);
  EXPECT_EQ(mode_of(path), 0750U);
}

TEST_F(DataDirTest, O29_somebody_elses_is_refused_naming_path_and_owner) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  const std::string path = base_ + "/theirs";
  std::filesystem::create_directory(path);
  ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  const auto dir = open_data_dir(path);
  ASSERT_FALSE(dir);
  EXPECT_EQ(dir.error().code, ErrorCode::forbidden);
  EXPECT_NE(dir.error().message.find(path), std::string::npos);
  EXPECT_NE(dir.error().message.find("uid 12345"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path + "/daemon.lock"));
}

TEST_F(DataDirTest, a_file_in_its_place_is_refused) {
  std::ofstream(base_ + "/file") << "x";
  const auto dir = open_data_dir(base_ + "/file");
  ASSERT_FALSE(dir);
  EXPECT_NE(dir.error().message.find("not a directory"), std::string::npos);
}

TEST_F(DataDirTest, O27_a_relative_path_in_a_deleted_directory_is_refused) {
  const auto home = std::filesystem::current_path();
  std::filesystem::create_directory(base_ + "/gone");
  std::filesystem::current_path(base_ + "/gone");
  std::filesystem::remove(base_ + "/gone");
  const auto dir = open_data_dir("data");
  std::filesystem::current_path(home);
  ASSERT_FALSE(dir);
  EXPECT_NE(dir.error().message.find("absolute"), std::string::npos);
}

TEST_F(DataDirTest, one_daemon_per_directory) {
  const auto dir = open_data_dir(base_ + "/data");
  ASSERT_TRUE(dir);
  std::optional<DataDirLock> first;
  {
    auto locked = lock_data_dir(*dir);
    ASSERT_TRUE(locked);
    first = std::move(*locked);
  }
  const auto second = lock_data_dir(*dir);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::conflict);
  EXPECT_NE(second.error().message.find(std::to_string(::getpid())), std::string::npos);
  // A person who removes the file lets no second daemon in.
  ASSERT_EQ(::unlink((base_ + "/data/daemon.lock").c_str()), 0);
  const auto third = lock_data_dir(*dir);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::conflict);
  first.reset();
  EXPECT_TRUE(lock_data_dir(*dir));
}

TEST_F(DataDirTest, the_socket_is_private_and_reachable_under_a_long_path) {
  const auto dir = open_data_dir(base_ + "/" + std::string(200, 'd'));
  ASSERT_TRUE(dir);
  {
    const auto listener = Listener::open(*dir);
    ASSERT_TRUE(listener) << listener.error().message;
    EXPECT_EQ(mode_of(dir->path + "/waybill.sock"), 0600U);
    EXPECT_FALSE(std::filesystem::exists(dir->path + "/waybill.sock.new"));
    const UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_through_fd(*dir, "waybill.sock").c_str());
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
  }
  EXPECT_FALSE(std::filesystem::exists(dir->path + "/waybill.sock"));
}

TEST_F(DataDirTest, a_socket_that_is_no_longer_ours_stays) {
  const auto dir = open_data_dir(base_ + "/data");
  ASSERT_TRUE(dir);
  {
    const auto listener = Listener::open(*dir);
    ASSERT_TRUE(listener);
    std::filesystem::remove(dir->path + "/waybill.sock");
    std::ofstream(dir->path + "/waybill.sock") << "another";
  }
  EXPECT_TRUE(std::filesystem::exists(dir->path + "/waybill.sock"));
}

}  // namespace
}  // namespace waybill::daemon
