#include "peers.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/unique_fd.h"
#include "figures.h"
#include "process.h"

namespace waybill::bench {
namespace {

constexpr std::size_t kRecordBytes = 400;  // about what a record of a job holds

void record(int fd) {
  const std::string line(kRecordBytes, 'r');
  const auto size = static_cast<ssize_t>(line.size());
  if (write(fd, line.data(), line.size()) != size || fdatasync(fd) != 0) die("cannot record");
}

}  // namespace

Rate bare_rate(const Suite& suite, const std::vector<std::string>& argv, int jobs, int width,
               int records) {
  const std::string path = suite.dir + "/bare";
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const double cpu = own_children_cpu_seconds();
  const std::int64_t start = mono_ns();
  int started = 0;
  int running = 0;
  while (started < jobs || running > 0) {
    while (started < jobs && running < width) {
      if (records > 1) record(fd.get());
      spawn({argv, {}});
      ++started;
      ++running;
    }
    if (waitpid(-1, nullptr, 0) <= 0) die("a child is missing");
    --running;
    record(fd.get());
  }
  Rate rate;
  rate.per_second = jobs / seconds_since(start);
  rate.cpu_ms = (own_children_cpu_seconds() - cpu) * 1e3 / jobs;
  return rate;
}

std::string stamp_file(const Suite& suite) { return suite.dir + "/stamp"; }

std::int64_t read_stamp(const Suite& suite) {
  const std::string bytes = read_text(stamp_file(suite));
  std::int64_t ns = 0;
  if (bytes.size() != sizeof ns) die("the stamped command has written nothing");
  std::memcpy(&ns, bytes.data(), sizeof ns);
  return ns;
}

// ---- task-spooler ------------------------------------------------------------------------------

bool TaskSpooler::there() { return have("tsp"); }

TaskSpooler::TaskSpooler(const Suite& suite, int width)
    : suite_(suite),
      env_{"TS_SOCKET=" + suite.dir + "/tsp.sock", "TMPDIR=" + suite.dir,
           "TS_SLOTS=" + std::to_string(width), "TS_MAXFINISHED=10"} {
  call({"-S", std::to_string(width)});
}

TaskSpooler::~TaskSpooler() { call({"-K"}); }

int TaskSpooler::call(std::vector<std::string> words) const {
  words.insert(words.begin(), "tsp");
  return run({std::move(words), env_});
}

double TaskSpooler::rate(int jobs) {
  const std::int64_t start = mono_ns();
  for (int i = 0; i < jobs; ++i) call({"true"});
  call({"-w"});
  return jobs / seconds_since(start);
}

double TaskSpooler::exit_ms() {
  call({suite_.stamp, stamp_file(suite_), kStampMs});
  call({"-w"});
  return static_cast<double>(mono_ns() - read_stamp(suite_)) / 1e6;
}

double TaskSpooler::output_seconds(std::vector<std::string> argv) {
  const std::int64_t start = mono_ns();
  call(std::move(argv));
  call({"-w"});
  const double seconds = seconds_since(start);
  for (const auto& entry : std::filesystem::directory_iterator(suite_.dir)) {
    if (entry.path().filename().string().starts_with("ts-out.")) {
      std::filesystem::remove(entry.path());
    }
  }
  return seconds;
}

// ---- nq ----------------------------------------------------------------------------------------

bool Nq::there() { return have("nq"); }

Nq::Nq(const Suite& suite) : suite_(suite), env_{"NQDIR=" + suite.dir + "/nq"} {
  std::filesystem::create_directories(suite.dir + "/nq");
}

int Nq::call(std::vector<std::string> words) const {
  words.insert(words.begin(), "nq");
  return run({std::move(words), env_});
}

double Nq::rate(int jobs) const {
  const std::int64_t start = mono_ns();
  for (int i = 0; i < jobs; ++i) call({"-c", "-q", "true"});
  call({"-q", "-w"});
  return jobs / seconds_since(start);
}

double Nq::exit_ms() const {
  call({"-c", "-q", suite_.stamp, stamp_file(suite_), kStampMs});
  call({"-q", "-w"});
  return static_cast<double>(mono_ns() - read_stamp(suite_)) / 1e6;
}

}  // namespace waybill::bench
