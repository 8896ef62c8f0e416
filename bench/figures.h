#pragma once
// Samples, what is said about them, and the table that is printed.

#include <cstdint>
#include <string>
#include <vector>

namespace waybill::bench {

using Samples = std::vector<double>;

std::int64_t mono_ns();
double seconds_since(std::int64_t start_ns);

// The value below which `share` (0 to 1) of the samples lie. Precondition: there are some.
double percentile(Samples samples, double share);
double median(const Samples& samples);

// One by one: sample i of the first through sample i of the second, as they were taken in one
// round.
Samples ratios(const Samples& first, const Samples& second);

void print_section(const std::string& title);
// One line: the median and, in brackets, the smallest and the greatest of the rounds.
void print_row(const std::string& what, const Samples& samples, const std::string& unit);
void print_text(const std::string& what, const std::string& text);

enum class Aim { at_least, below };
struct Target {
  Aim aim = Aim::at_least;
  double value = 0;
  const char* unit = "";
};
// A line that compares a figure with its target.
void print_target(const std::string& what, double figure, Target target);

// Says why and ends the program: a benchmark that cannot run has nothing to report.
[[noreturn]] void die(const std::string& why);

}  // namespace waybill::bench
