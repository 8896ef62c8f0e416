#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/crc32.h"
#include "base/sha256.h"
#include "shim/cgroup.h"
#include "shim/launch.h"
#include "shim/output_file.h"
#include "shim/proc.h"

namespace waybill::shim {
namespace {

std::string sha256_of(const std::string& text, std::size_t step) {
  Sha256 hash;
  for (std::size_t at = 0; at < text.size(); at += step) {
    hash.update(text.data() + at, std::min(step, text.size() - at));
  }
  char hex[65];
  hash.finish_hex(hex);
  return hex;
}

TEST(Sha256, known_answers_in_any_pieces) {
  EXPECT_EQ(sha256_of("", 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc", 3),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 7),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  const std::string million(1'000'000, 'a');
  for (std::size_t step : {1UL, 63UL, 64UL, 65UL, 1000UL, 1'000'000UL}) {
    EXPECT_EQ(sha256_of(million, step),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

TEST(Crc32, known_answer_and_going_on) {
  EXPECT_EQ(crc32("123456789", 9), 0xCBF43926U);
  EXPECT_EQ(crc32("6789", 4, crc32("12345", 5)), 0xCBF43926U);
}

std::string launch_text() {
  std::string text;
  for (const char* field : {"protocol=1",       "job=j1",
                            "node_seq=7",       "cwd=/tmp",
                            "program=/bin/sh",  "arg=sh",
                            "arg=-c",           "arg=echo =a\n=",
                            "grace_ms=5000",    "deadline_ms=0",
                            "cap_bytes=1",      "head_bytes=1",
                            "leftovers=keep",   "leftover_grace_ms=1",
                            "drain_grace_ms=1", "drain_max_ms=1",
                            "umask=27",         "capture=1",
                            "crash_point=",     "env_bytes=0",
                            "env_crc=00000000"}) {
    text += field;
    text.push_back('\0');
  }
  return text;
}

std::string sealed(const std::string& body) {
  char digits[8];
  crc32_hex(crc32(body.data(), body.size()), digits);
  return body + "crc=" + std::string(digits, 8) + std::string(1, '\0');
}

TEST(Launch, fields_and_arguments) {
  const std::string text = sealed(launch_text());
  Launch launch;
  ASSERT_EQ(parse_launch(text, launch), LaunchError::none);
  EXPECT_EQ(launch.job, "j1");
  EXPECT_EQ(launch.umask, 027U);
  EXPECT_TRUE(launch.keep_leftovers && launch.capture);
  ASSERT_EQ(launch.arg_count, 3U);
  std::vector<const char*> argv(4);
  split_args(launch, argv.data());
  EXPECT_STREQ(argv[2], "echo =a\n=");
  EXPECT_EQ(argv[3], nullptr);
}

TEST(Launch, every_flipped_bit_and_every_cut_is_refused) {
  const std::string text = sealed(launch_text());
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = text;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      Launch launch;
      EXPECT_NE(parse_launch(bad, launch), LaunchError::none) << i;
    }
    Launch launch;
    EXPECT_NE(parse_launch(text.substr(0, i), launch), LaunchError::none) << i;
  }
}

TEST(Launch, right_checksum_with_wrong_fields_is_refused) {
  const auto change = [](const std::string& from, const std::string& to) {
    std::string text = launch_text();
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos);
    return sealed(text.replace(at, from.size(), to));
  };
  const std::pair<const char*, const char*> changes[] = {
      {"protocol=1", "protocol=4"},
      {"protocol=1", "job=1"},
      {"grace_ms=5000", "grace_ms=-1"},
      {"grace_ms=5000", "grace_ms="},
      {"umask=27", "umask=1777"},
      {"umask=27", "umask=8"},
      {"leftovers=keep", "leftovers="},
      {"capture=1", "capture=2"},
      {"capture=1", "shell=yes"},
      {"capture=1", "wrapper_args=3"},
      {"cwd=/tmp", "cwd="},
      {"node_seq=7", "unknown=7"},
      {"node_seq=7", "stdin=tty"},
      {"node_seq=7", "pty=yes"},
      {"node_seq=7", "node_seq"},
      {"cap_bytes=1", "cap_bytes=99999999999999999999"},
      {"env_crc=00000000", "env_crc=0"},
  };
  for (const auto& [from, to] : changes) {
    Launch launch;
    EXPECT_NE(parse_launch(change(from, to), launch), LaunchError::none) << to;
  }
}

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest() {
    char path[] = "/tmp/waybill-output-XXXXXX";
    dir_ = mkdtemp(path);
    fd_ = open(dir_.c_str(), O_RDONLY | O_DIRECTORY);
  }
  ~OutputFileTest() override {
    close(fd_);
    if (mounted_) umount2(dir_.c_str(), MNT_DETACH);
    std::filesystem::remove_all(dir_);
  }
  // A small file system of its own; needs root.
  bool mount_small(const char* size) {
    close(fd_);
    mounted_ = mount("tmpfs", dir_.c_str(), "tmpfs", 0, size) == 0;
    fd_ = open(dir_.c_str(), O_RDONLY | O_DIRECTORY);
    return mounted_;
  }
  std::string bytes_at(std::uint64_t from, std::size_t size) const {
    std::string text(size, '\0');
    const int fd = openat(fd_, kOut, O_RDONLY);
    const ssize_t n = pread(fd, text.data(), size, static_cast<off_t>(from));
    close(fd);
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return text;
  }
  // What a reader of the published list sees.
  std::vector<OutputGap> published() const {
    char text[kGapsReserve];
    const int fd = openat(fd_, kOutGaps, O_RDONLY);
    const ssize_t n = read(fd, text, sizeof text);
    close(fd);
    OutputMap map;
    EXPECT_TRUE(n > 0 && parse_map({text, static_cast<std::size_t>(n)}, map));
    return {map.gaps, map.gaps + map.count};
  }

  std::string dir_;
  int fd_ = -1;
  bool mounted_ = false;
};

std::string numbered_lines(std::uint64_t first, std::uint64_t count) {
  std::string text;
  char line[32];
  for (std::uint64_t i = first; i < first + count; ++i) {
    text.append(line, static_cast<std::size_t>(std::snprintf(line, sizeof line, "line %010llu\n",
                                                             static_cast<unsigned long long>(i))));
  }
  return text;
}

TEST_F(OutputFileTest, I14_allocation_stays_below_cap_plus_slack_at_every_moment) {
  OutputFile out;
  ASSERT_EQ(out.create(fd_, {3U << 20, 1U << 20}), 0);
  std::string all;
  for (std::uint64_t i = 0; i < 400; ++i) {
    const std::string part = numbered_lines(i * 4096, 4096);
    out.append(part.data(), part.size());
    all += part;
    struct stat info{};
    ASSERT_EQ(fstatat(fd_, kOut, &info, 0), 0);
    ASSERT_LE(info.st_blocks * 512, (7 << 20) + 4096);
  }
  EXPECT_EQ(out.bytes(), all.size());
  ASSERT_EQ(out.gap_count(), 1U);
  const OutputGap gap = out.gap(0);
  EXPECT_EQ(bytes_at(0, gap.from), all.substr(0, gap.from));
  EXPECT_EQ(bytes_at(gap.to, all.size()), all.substr(gap.to));
  EXPECT_EQ(all[gap.from - 1], '\n');
  EXPECT_EQ(all[gap.to - 1], '\n');
  EXPECT_EQ(published()[0].to, gap.to);
  const std::string kept = all.substr(0, gap.from) + "gap:" + std::to_string(gap.from) + "-" +
                           std::to_string(gap.to) + all.substr(gap.to);
  EXPECT_EQ(out.digest(), sha256_of(kept, 65536));
}

TEST_F(OutputFileTest, digest_without_gaps_is_that_of_the_bytes) {
  OutputFile out;
  ASSERT_EQ(out.create(fd_, {3U << 20, 1U << 20}), 0);
  const std::string part = numbered_lines(0, 1000);
  out.append(part.data(), part.size());
  EXPECT_EQ(out.digest(), sha256_of(part, 100));
}

TEST_F(OutputFileTest, O19_a_full_disk_counts_what_is_dropped_and_never_fails) {
  if (!mount_small("size=2m")) GTEST_SKIP() << "needs root";
  OutputFile out;
  ASSERT_EQ(out.create(fd_, {64U << 20, 1U << 20}), 0);
  const std::string part = numbered_lines(0, 4096);
  for (int i = 0; i < 100; ++i) out.append(part.data(), part.size());
  EXPECT_EQ(out.bytes(), part.size() * 100);
  EXPECT_STREQ(out.incomplete(), "enospc");
  ASSERT_GE(out.gap_count(), 1U);
  EXPECT_LT(out.kept(), 2U << 20);
  EXPECT_EQ(published().back().to, out.bytes());
  const OutputGap gap = out.gap(0);
  const std::string head = bytes_at(0, gap.from);
  EXPECT_EQ(head.substr(0, part.size()), part);
  EXPECT_STRNE(out.digest(), "");
}

TEST_F(OutputFileTest, O19_storing_goes_on_behind_a_gap_when_there_is_space_again) {
  if (!mount_small("size=2m")) GTEST_SKIP() << "needs root";
  OutputFile out;
  ASSERT_EQ(out.create(fd_, {64U << 20, 1U << 20}), 0);
  const std::string ballast = dir_ + "/ballast";
  std::ofstream(ballast) << std::string(1U << 20, 'b');
  const std::string part = numbered_lines(0, 4096);
  for (int i = 0; i < 40; ++i) out.append(part.data(), part.size());
  ASSERT_STREQ(out.incomplete(), "enospc");
  const std::uint64_t before = out.kept();
  std::filesystem::remove(ballast);
  while (out.kept() == before) out.append("again\n", 6);  // it looks once a second
  EXPECT_EQ(bytes_at(out.bytes() - 6, 6), "again\n");
  ASSERT_GE(out.gap_count(), 1U);
  EXPECT_EQ(out.gap(out.gap_count() - 1).to, out.bytes() - 6);
  EXPECT_EQ(published().back().to, out.bytes() - 6);
}

TEST_F(OutputFileTest, a_lower_cap_gives_back_at_once_and_holds_from_then_on) {
  OutputFile out;
  ASSERT_EQ(out.create(fd_, {16U << 20, 1U << 20}), 0);
  const std::string part = numbered_lines(0, 4096);
  std::string all;
  for (int i = 0; i < 128; ++i) {
    out.append(part.data(), part.size());
    all += part;
  }
  out.lower_cap(2U << 20);
  EXPECT_LE(out.kept(), (2U << 20) + 8192);
  out.lower_cap(4U << 20);  // never raised
  for (int i = 0; i < 256; ++i) {
    out.append(part.data(), part.size());
    all += part;
    struct stat info{};
    ASSERT_EQ(fstatat(fd_, kOut, &info, 0), 0);
    ASSERT_LE(info.st_blocks * 512, (2 << 20) + (2 << 18) + 8192);
  }
  ASSERT_EQ(out.gap_count(), 1U);
  const OutputGap gap = out.gap(0);
  EXPECT_EQ(bytes_at(0, gap.from), all.substr(0, gap.from));
  EXPECT_EQ(bytes_at(gap.to, all.size()), all.substr(gap.to));
  out.lower_cap(1);  // as low as it goes
  EXPECT_LE(out.kept(), kCapMin + 8192);
  EXPECT_EQ(published()[0].to, out.gap(0).to);
}

// The bytes at these offsets, by the published map.
std::string bytes_by_map(int dir, std::uint64_t from, std::uint64_t to) {
  char text[kGapsReserve];
  const int list = openat(dir, kOutGaps, O_RDONLY);
  const ssize_t n = read(list, text, sizeof text);
  close(list);
  OutputMap map;
  EXPECT_TRUE(n > 0 && parse_map({text, static_cast<std::size_t>(n)}, map));
  const int fd = openat(dir, kOut, O_RDONLY);
  std::string bytes(to - from, '\0');
  for (std::uint64_t at = from; at < to;) {
    const OutputPlace place = place_of(map.ring, at);
    const std::uint64_t want = std::min(place.run, to - at);
    EXPECT_EQ(pread(fd, bytes.data() + (at - from), want, static_cast<off_t>(place.position)),
              static_cast<ssize_t>(want));
    at += want;
  }
  close(fd);
  return bytes;
}

void expect_a_ring(OutputFile& out, int dir, const std::string& all) {
  struct stat info{};
  ASSERT_EQ(fstatat(dir, kOut, &info, 0), 0);
  ASSERT_LE(info.st_size, static_cast<off_t>((2U << 20) + kCapSlack));
  ASSERT_EQ(out.bytes(), all.size());
  ASSERT_EQ(out.gap_count(), 1U);
  const OutputGap gap = out.gap(0);
  EXPECT_STREQ(out.incomplete(), "");
  EXPECT_LE(gap.from, 1U << 20);
  EXPECT_GE(out.kept(), 2U << 20);
  EXPECT_EQ(bytes_by_map(dir, 0, gap.from), all.substr(0, gap.from));
  EXPECT_EQ(bytes_by_map(dir, gap.to, all.size()), all.substr(gap.to));
  EXPECT_EQ(all[gap.from - 1], '\n');
  EXPECT_EQ(all[gap.to - 1], '\n');
}

TEST_F(OutputFileTest, I14_without_holes_the_file_goes_round) {
  OutputFile out;
  ASSERT_EQ(out.create(fd_, {2U << 20, 1U << 20, false}), 0);
  std::string all;
  for (std::uint64_t i = 0; i < 600; ++i) {
    const std::string part = numbered_lines(i * 1000, 1000 + i);
    out.append(part.data(), part.size());
    all += part;
    if (i % 50 == 49 && all.size() > (8U << 20)) {
      expect_a_ring(out, fd_, all);
      if (HasFatalFailure()) return;
    }
  }
  const OutputGap gap = out.gap(0);
  const std::string kept = all.substr(0, gap.from) + "gap:" + std::to_string(gap.from) + "-" +
                           std::to_string(gap.to) + all.substr(gap.to);
  EXPECT_EQ(out.digest(), sha256_of(kept, 65536));
}

// Writes a ring, and goes on with another writer whose limits have this head.
void expect_a_ring_taken_over(int fd, std::uint64_t head) {
  std::string all;
  const auto fill = [&](OutputFile& out) {
    for (std::uint64_t i = 0; i < 300; ++i) {
      const std::string part = numbered_lines(i, 3000);
      out.append(part.data(), part.size());
      all += part;
    }
  };
  {
    OutputFile out;
    ASSERT_EQ(out.create(fd, {2U << 20, 1U << 20, false}), 0);
    fill(out);
  }
  OutputFile out;
  ASSERT_EQ(out.resume(fd, {2U << 20, head}), 0);
  fill(out);
  expect_a_ring(out, fd, all);
}

TEST_F(OutputFileTest, a_ring_is_taken_over_where_it_was_left) {
  expect_a_ring_taken_over(fd_, 1U << 20);
}

TEST_F(OutputFileTest, a_ring_is_taken_over_by_one_whose_head_was_lowered_meanwhile) {
  expect_a_ring_taken_over(fd_, 1U << 16);
}

TEST_F(OutputFileTest, a_file_system_without_holes_is_found_out) {
  // ramfs cannot punch.
  close(fd_);
  mounted_ = mount("ramfs", dir_.c_str(), "ramfs", 0, nullptr) == 0;
  fd_ = open(dir_.c_str(), O_RDONLY | O_DIRECTORY);
  if (!mounted_) GTEST_SKIP() << "needs root";
  OutputFile out;
  const int error = out.create(fd_, {2U << 20, 1U << 20});
  if (error != 0) GTEST_SKIP() << "no such file system: " << error;
  std::string all;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const std::string part = numbered_lines(i, 8192);
    out.append(part.data(), part.size());
    all += part;
  }
  expect_a_ring(out, fd_, all);
}

TEST_F(OutputFileTest, resume_goes_on_at_the_logical_end) {
  const std::string part = numbered_lines(0, 40'000);
  {
    OutputFile out;
    ASSERT_EQ(out.create(fd_, {1U << 20, 1U << 19}), 0);
    for (int i = 0; i < 20; ++i) out.append(part.data(), part.size());
  }
  OutputFile out;
  ASSERT_EQ(out.resume(fd_, {1U << 20, 1U << 19}), 0);
  EXPECT_EQ(out.bytes(), part.size() * 20);
  ASSERT_EQ(out.gap_count(), 1U);
  for (int i = 0; i < 20; ++i) out.append(part.data(), part.size());
  EXPECT_EQ(out.bytes(), part.size() * 40);
  EXPECT_EQ(out.gap_count(), 1U);
  EXPECT_LE(out.kept(), 5U << 20);
}

TEST(Gaps, a_list_that_does_not_check_is_refused) {
  OutputMap map;
  const std::string body = "gaps 10-20 30-40 ring=4096+8192 end=99999";
  char digits[8];
  crc32_hex(crc32(body.data(), body.size()), digits);
  const std::string text = body + " crc=" + std::string(digits, 8) + "\nleft over";
  ASSERT_TRUE(parse_map(text, map));
  EXPECT_EQ(map.count, 2U);
  EXPECT_EQ(map.gaps[1].to, 40U);
  EXPECT_EQ(map.ring.size, 8192U);
  EXPECT_EQ(map.ring.end, 99999U);
  for (std::size_t i = 0; i < text.find('\n'); ++i) {
    std::string bad = text;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_FALSE(parse_map(bad, map)) << i;
  }
}

// The counter of the job's own cgroup, as the memory controller of version 2 shows it.
TEST(OomCounter, I9_of_the_jobs_own_group_counts_from_where_it_stood) {
  char path[] = "/tmp/waybill-oom-XXXXXX";
  const std::string dir = mkdtemp(path);
  const auto write_events = [&](const std::string& text) {
    const int fd = open((dir + "/memory.events").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ASSERT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(fd);
  };
  write_events("low 0\nhigh 0\nmax 12\noom 9\noom_kill 2\noom_group_kill 7\n");
  const int fd = open(dir.c_str(), O_RDONLY | O_DIRECTORY);
  const OomCounter counter = open_oom_counter(fd, getpid());
  EXPECT_TRUE(counter.own);
  EXPECT_EQ(counter.before, 2);
  EXPECT_FALSE(oom_killed(counter));
  write_events("low 0\nhigh 0\nmax 99\noom 99\noom_kill 2\noom_group_kill 99\n");
  EXPECT_FALSE(oom_killed(counter)) << "only kills count";
  write_events("low 0\nhigh 0\nmax 99\noom 99\noom_kill 3\noom_group_kill 99\n");
  EXPECT_TRUE(oom_killed(counter));
  EXPECT_FALSE(oom_killed(OomCounter{})) << "no counter, no claim";
  close(counter.fd);
  close(fd);
  std::filesystem::remove_all(dir);
}

TEST(Cgroup, I7_what_is_no_cgroup_is_neither_entered_nor_made_nor_empty) {
  char path[] = "/tmp/waybill-cgroup-XXXXXX";
  const std::string dir = mkdtemp(path);
  const std::string job = dir + "/waybill-x/job-y";
  EXPECT_EQ(make_cgroup(job.c_str()), -ENODEV);
  EXPECT_FALSE(std::filesystem::exists(dir + "/waybill-x"));
  EXPECT_EQ(cgroup_populated(job.c_str()), Answer::unknown) << "not there is not empty here";
  std::filesystem::create_directories(job);
  EXPECT_EQ(open_cgroup(job.c_str()), -ENODEV);
  EXPECT_EQ(cgroup_populated(job.c_str()), Answer::unknown);
  EXPECT_NE(is_in_cgroup(getpid(), job), Answer::yes);
  EXPECT_EQ(is_in_cgroup(getpid(), "/"), Answer::unknown);
  std::filesystem::remove_all(dir);
}

TEST(Proc, names_with_brackets_and_blanks_do_not_confuse_the_fields) {
  const pid_t pid = fork();
  if (pid == 0) {
    const int fd = open("/proc/self/comm", O_WRONLY);
    if (write(fd, "a) S 1 (b", 9) != 9) _exit(1);
    for (;;) pause();
  }
  ProcStat stat;
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(read_proc_stat(pid, stat));
    if (std::string(stat.comm) == "a) S 1 (b") break;
    usleep(1000);
  }
  EXPECT_STREQ(stat.comm, "a) S 1 (b");
  EXPECT_EQ(stat.ppid, getpid());
  Members members;
  find_descendants(getpid(), members);
  const Member* found = members.find(pid, stat.start);
  ASSERT_NE(found, nullptr);
  Member stranger = *found;
  stranger.start += 1;
  EXPECT_EQ(signal_member(stranger, SIGKILL), ESRCH) << "same pid, another process";
  EXPECT_EQ(signal_member(*found, SIGKILL), 0);
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

TEST(Proc, I9_who_cannot_be_looked_at_is_neither_absent_nor_without_our_output) {
  Members members;
  find_descendants(getpid(), members);
  EXPECT_FALSE(members.unseen);
  const FileId nothing{};
  EXPECT_FALSE(holds_file(getpid(), nothing));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  find_descendants(getpid(), members);
  const bool unseen = members.unseen;
  const bool held = holds_file(getpid(), nothing);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(unseen);
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace waybill::shim
