#pragma once
// The launch file: everything a supervisor needs to run one command, written by the daemon. It is a
// sequence of NUL-terminated "key=value" fields, so that neither side needs a parser; the last one
// is the checksum. `launch.env` holds the environment, one NUL-terminated "NAME=value" each.
// Views point into the caller's buffers. No exceptions, no allocation.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace waybill::shim {

enum class LaunchError { none, checksum, protocol, field };

struct Launch {
  std::string_view job;
  std::string_view program;  // absolute path, or a name to look up in the job's PATH
  std::string_view cwd;
  std::string_view args;  // all "arg=…" fields, one after the other, as they stand in the file
  std::size_t arg_count = 0;
  std::string_view crash_point;
  std::string_view cgroup;  // absolute path of the cgroup to make and enter; empty: none
  std::uint64_t node_seq = 0;
  std::uint64_t grace_ms = 0;
  std::uint64_t deadline_ms = 0;  // 0: none
  std::uint64_t cap_bytes = 0;
  std::uint64_t head_bytes = 0;
  std::uint64_t leftover_grace_ms = 0;
  std::uint64_t drain_grace_ms = 0;
  std::uint64_t drain_max_ms = 0;
  std::uint64_t umask = 022;
  std::uint64_t files = 0;  // soft limit of open files, 0: as it is; protocol 2
  std::uint64_t env_bytes = 0;
  std::uint64_t env_crc = 0;
  // Protocol 3: whose job it is and how it was asked for, so that a lost row can be made again. A
  // supervisor has no use for it.
  std::string_view tenant;
  std::string_view session;
  std::string_view turn;
  std::string_view sandbox;
  std::string_view generation;
  std::string_view owner;
  std::string_view wake;
  std::string_view label;
  std::string_view key;
  std::string_view fingerprint;
  std::string_view incarnation;
  std::uint64_t accepted_ms = 0;
  std::uint64_t wrapper_args = 0;  // how many of the arguments come before shell or program
  bool shell = false;              // what comes after them is a shell's
  bool keep_leftovers = false;
  bool capture = false;
  bool open_stdin = false;  // protocol 2
  bool pty = false;         // protocol 2
};

// Checks the checksum first, then every field; an unknown key is an error (the file is closed).
// Older protocols lack the fields so marked.
LaunchError parse_launch(std::string_view file, Launch& out);

// Puts pointers to the arguments, each NUL-terminated in the file, into `argv`, and a null after
// the last. `argv` has room for arg_count + 1.
void split_args(const Launch& launch, const char** argv);

}  // namespace waybill::shim
