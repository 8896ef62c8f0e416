#pragma once
// Samples, what is said about them, and the table that is printed.

#include <cstdint>
#include <string>
#include <string_view>
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

void print_section(std::string_view title);
// One line: the median and, in brackets, the smallest and the greatest of the rounds.
void print_row(std::string_view what, const Samples& samples, std::string_view unit);
void print_text(std::string_view what, std::string_view text);

enum class Aim { at_least, below };
struct Target {
  Aim aim = Aim::at_least;
  double value = 0;
  std::string_view unit;
};
// A line that compares a figure with its target.
void print_target(std::string_view what, double figure, Target target);

// Says why and ends the program: a benchmark that cannot run has nothing to report.
[[noreturn]] void die(std::string_view why);

}  // namespace waybill::bench
