#pragma once
// Names, protocol number and limits of the files in a job directory; docs/files.md is the promise.
// Shared by the supervisor and by the daemon's side of these files.

#include <cstddef>
#include <cstdint>

namespace waybill::shim {

// Of the records. They may gain members; readers ignore those they do not know.
inline constexpr int kProtocol = 1;
// Of the launch file, which is closed: a supervisor also takes the older ones.
inline constexpr int kLaunchProtocol = 3;

// The descriptor on which a supervisor inherits the locked `lock` file.
inline constexpr int kLockFd = 3;

// SIGUSR1, queued (SI_QUEUE) with this value, is a stop wish; any other SIGUSR1 means nothing, so
// that a command may signal its parent as it likes.
inline constexpr int kStopSignalValue = 0x57425354;

inline constexpr char kLaunch[] = "launch";
inline constexpr char kLaunchEnv[] = "launch.env";
inline constexpr char kCommand[] = "command";
inline constexpr char kLock[] = "lock";
inline constexpr char kHook[] = "hook.bash";
inline constexpr char kHookZsh[] = ".zshenv";
inline constexpr char kStages[] = "stages";
inline constexpr char kOut[] = "out";
inline constexpr char kOutFifo[] = "out.fifo";
inline constexpr char kOutGaps[] = "out.gaps";
inline constexpr char kCtl[] = "ctl";
inline constexpr char kInFifo[] = "in.fifo";
inline constexpr char kInCloseTmp[] = "in.close.tmp";
inline constexpr char kInClose[] = "in.close";
inline constexpr char kStartTmp[] = "start.tmp";
inline constexpr char kStart[] = "start.json";
inline constexpr char kExitTmp[] = "exit.tmp";
inline constexpr char kExit[] = "exit.json";
inline constexpr char kFinalTmp[] = "final.tmp";
inline constexpr char kFinal[] = "final.json";
inline constexpr char kLeftoversTmp[] = "leftovers.tmp";
inline constexpr char kLeftovers[] = "leftovers.json";
inline constexpr char kStopReqTmp[] = "stop.req.tmp";
inline constexpr char kStopReq[] = "stop.req";
inline constexpr char kStopTmp[] = "stop.tmp";
inline constexpr char kStop[] = "stop.json";
// From a job directory to the data directory's bell.
inline constexpr char kBell[] = "../../bell";

// Space reserved before the command starts, so that a full disk cannot prevent the records.
inline constexpr std::size_t kExitReserve = 4096;
inline constexpr std::size_t kFinalReserve = 16384;
inline constexpr std::size_t kRecordBytesMax = 16384;
inline constexpr std::size_t kGapsReserve = 4096;

// Kept above the cap before the middle of the output is given back.
inline constexpr std::uint64_t kCapSlack = 4ULL * 1024 * 1024;
inline constexpr std::uint64_t kCapMin = 64ULL * 1024;
inline constexpr std::uint64_t kDefaultCap = 64ULL * 1024 * 1024;
inline constexpr std::uint64_t kDefaultHead = 1024ULL * 1024;
inline constexpr std::size_t kGapsMax = 32;
inline constexpr std::size_t kNotesMax = 32;
inline constexpr std::size_t kCmdlineBytesMax = 200;

// Of a job's own terminal, until the command sets it itself.
inline constexpr unsigned short kTerminalRows = 24;
inline constexpr unsigned short kTerminalColumns = 80;

}  // namespace waybill::shim
