#include "cli/file_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace waybill::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FileChangeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/waybill-change-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    dir = name;
  }
  void TearDown() override { fs::remove_all(dir); }

  std::string path(const std::string& name) const { return dir + "/" + name; }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  std::string get(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // The change of a file from what it is now.
  FileChange change(const std::string& name, std::optional<std::string> after) const {
    FileChange out = *read_file(path(name));
    out.after = std::move(after);
    return out;
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(dir), fs::directory_iterator()));
  }

  std::string dir;
};

TEST_F(FileChangeTest, CreatesChangesAndRemoves) {
  put("b", "old");
  put("c", "gone");
  const std::vector<FileChange> changes{change("sub/a", "new"), change("b", "newer"),
                                        change("c", std::nullopt)};
  EXPECT_EQ(action_of(changes[0]), "create");
  EXPECT_EQ(action_of(changes[1]), "change");
  EXPECT_EQ(action_of(changes[2]), "remove");
  ASSERT_TRUE(write_changes(changes));
  EXPECT_EQ(get("sub/a"), "new");
  EXPECT_EQ(get("b"), "newer");
  EXPECT_FALSE(fs::exists(path("c")));
  EXPECT_EQ(files(), 2U);
}

TEST_F(FileChangeTest, KeepsTheModeAndTheLink) {
  put("real", "old");
  for (const mode_t mode : {0600U, 0640U, 0444U, 0777U}) {
    ASSERT_EQ(::chmod(path("real").c_str(), mode), 0);
    fs::remove(path("link"));
    fs::create_symlink("real", path("link"));
    ASSERT_TRUE(write_changes({change("link", "mode " + std::to_string(mode))}));
    EXPECT_TRUE(fs::is_symlink(path("link")));
    EXPECT_EQ(get("real"), "mode " + std::to_string(mode));
    struct stat info{};
    ASSERT_EQ(::stat(path("real").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777U, mode);
  }
}

TEST_F(FileChangeTest, WhatChangedMeanwhileIsNotOverwritten) {
  put("a", "old");
  put("b", "old");
  const std::vector<FileChange> changes{change("a", "ours"), change("b", "ours")};
  put("b", "theirs");
  const Result<void> done = write_changes(changes);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::conflict);
  EXPECT_THAT(done.error().message, HasSubstr(path("b")));
  EXPECT_EQ(get("a"), "old");
  EXPECT_EQ(get("b"), "theirs");
  EXPECT_EQ(files(), 2U);
}

TEST_F(FileChangeTest, WhatCameOrWentMeanwhileIsAConflict) {
  put("went", "old");
  for (const FileChange& one : {change("came", "ours"), change("went", "ours")}) {
    put("came", "theirs");
    fs::remove(path("went"));
    const Result<void> done = write_changes({one});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::conflict);
    EXPECT_EQ(get("came"), "theirs");
    EXPECT_FALSE(fs::exists(path("went")));
    fs::remove(path("came"));
    put("went", "old");
  }
}

TEST_F(FileChangeTest, ALinkThatLeadsElsewhereMeanwhileIsAConflict) {
  put("one", "same");
  put("two", "same");
  fs::create_symlink("one", path("link"));
  const FileChange ours = change("link", "ours");
  fs::remove(path("link"));
  fs::create_symlink("two", path("link"));
  EXPECT_EQ(write_changes({ours}).error().code, ErrorCode::conflict);
  EXPECT_EQ(get("one") + get("two"), "samesame");
}

TEST_F(FileChangeTest, WhatIsNoFileIsRefused) {
  fs::create_directory(path("d"));
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  fs::create_symlink("nothing", path("link"));
  for (const char* name : {"d", "fifo", "link"}) {
    const Result<FileChange> file = read_file(path(name));
    ASSERT_FALSE(file) << name;
    EXPECT_EQ(file.error().code, ErrorCode::bad_request);
  }
}

TEST_F(FileChangeTest, AnErrorInTheMiddleIsTakenBack) {
  put("a", "old");
  fs::create_directory(path("sub"));
  FileChange second = change("sub/b", "ours");
  second.target = path("none/b");  // its directory cannot be made
  put("none", "a file");
  EXPECT_FALSE(write_changes({change("a", "ours"), second}));
  EXPECT_EQ(get("a"), "old");
  EXPECT_EQ(files(), 3U);
}

}  // namespace
}  // namespace waybill::cli
