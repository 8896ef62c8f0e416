#pragma once
// What all benchmarks are given, and the benchmarks.

#include <string>

namespace waybill::bench {

struct Suite {
  std::string waybill;  // programs
  std::string stamp;
  std::string dir;  // a directory of our own, on the disk to be measured
  int rounds = 5;
  double scale = 1;  // of the number of operations in a round

  int times(int count) const {
    const int scaled = static_cast<int>(count * scale);
    return scaled < 1 ? 1 : scaled;
  }
};

void bench_accept(const Suite& suite);
void bench_launch(const Suite& suite);
void bench_chain(const Suite& suite);
void bench_stop(const Suite& suite);
void bench_history(const Suite& suite);
void bench_exit(const Suite& suite);
void bench_memory(const Suite& suite);
void bench_output(const Suite& suite);
void bench_wakeups(const Suite& suite);

}  // namespace waybill::bench
