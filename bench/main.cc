// waybill-bench: everything of docs/performance.md in one run.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "figures.h"
#include "suite.h"

namespace waybill::bench {
namespace {

struct Section {
  const char* name;
  void (*run)(const Suite&);
};
constexpr Section kSections[] = {
    {"accept", bench_accept}, {"launch", bench_launch},   {"chain", bench_chain},
    {"stop", bench_stop},     {"exit", bench_exit},       {"memory", bench_memory},
    {"output", bench_output}, {"wakeups", bench_wakeups}, {"history", bench_history},
};

constexpr char kUsage[] =
    "usage: waybill-bench [--rounds N] [--scale X] [--dir DIR] [--waybill FILE] [SECTION...]\n"
    "sections: accept launch chain stop exit memory output wakeups history;\n"
    "          all when none is named\n"
    "--dir     where to write, on the disk to be measured (default /var/tmp)\n"
    "--waybill another build of the program, its supervisor beside it\n"
    "--scale   of the number of operations in a round: 0.1 is quick and rough\n";

std::string folder_of_this_program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

class WorkDir {
 public:
  explicit WorkDir(const std::string& parent) : path_(parent + "/waybill-bench-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) die("cannot make a directory in " + parent);
  }
  ~WorkDir() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  WorkDir(const WorkDir&) = delete;
  WorkDir& operator=(const WorkDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Arguments {
  Suite suite;
  std::string parent = "/var/tmp";
  std::vector<std::string> sections;
};

Arguments parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      out.sections.push_back(word);
      continue;
    }
    if (i + 1 == argc) die(std::string(word) + " is not known or needs a value\n" + kUsage);
    const char* value = argv[++i];
    if (word == "--rounds") {
      out.suite.rounds = std::max(1, static_cast<int>(std::strtol(value, nullptr, 10)));
    } else if (word == "--scale") {
      out.suite.scale = std::strtod(value, nullptr);
    } else if (word == "--waybill") {
      out.suite.waybill = value;
    } else if (word == "--dir") {
      out.parent = value;
    } else {
      die(word + " is not known\n" + kUsage);
    }
  }
  return out;
}

int bench_main(int argc, char** argv) {
  Arguments arguments = parse(argc, argv);
  const std::string here = folder_of_this_program();
  if (arguments.suite.waybill.empty()) arguments.suite.waybill = here + "/waybill";
  arguments.suite.stamp = here + "/waybill-bench-stamp";
  const WorkDir dir(arguments.parent);
  arguments.suite.dir = dir.path();
  std::printf("waybill-bench: medians of %d rounds, [smallest .. greatest]; %ld processors\n",
              arguments.suite.rounds, sysconf(_SC_NPROCESSORS_ONLN));
  for (const std::string& name : arguments.sections) {
    bool known = false;
    for (const Section& section : kSections) known = known || section.name == name;
    if (!known) die("there is no section " + name + "\n" + kUsage);
  }
  for (const Section& section : kSections) {
    bool wanted = arguments.sections.empty();
    for (const std::string& name : arguments.sections) wanted = wanted || name == section.name;
    if (wanted) section.run(arguments.suite);
  }
  return 0;
}

}  // namespace
}  // namespace waybill::bench

int main(int argc, char** argv) { return waybill::bench::bench_main(argc, argv); }
