#include "figures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace waybill::bench {
namespace {

// Three figures that matter, whatever the size.
std::string number(double value) {
  char text[48];
  const double size = std::fabs(value);
  const char* format = size >= 100 ? "%.0f" : size >= 10 ? "%.1f" : "%.2f";
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

std::int64_t mono_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

double seconds_since(std::int64_t start_ns) {
  return static_cast<double>(mono_ns() - start_ns) / 1e9;
}

double percentile(Samples samples, double share) {
  if (samples.empty()) die("a figure without samples");
  std::ranges::sort(samples);
  const double at = share * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  const double part = at - static_cast<double>(below);
  return samples[below] * (1 - part) + samples[above] * part;
}

double median(const Samples& samples) { return percentile(samples, 0.5); }

Samples ratios(const Samples& first, const Samples& second) {
  Samples out;
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    out.push_back(first[i] / second[i]);
  }
  return out;
}

void print_section(const std::string& title) {
  std::printf("\n%s\n", title.c_str());
  std::fflush(stdout);
}

void print_row(const std::string& what, const Samples& samples, const std::string& unit) {
  const std::string middle = number(median(samples));
  const std::string low = number(percentile(samples, 0));
  const std::string high = number(percentile(samples, 1));
  std::printf("  %-62s %9s %-8s [%s .. %s]\n", what.c_str(), middle.c_str(), unit.c_str(),
              low.c_str(), high.c_str());
  std::fflush(stdout);
}

void print_text(const std::string& what, const std::string& text) {
  std::printf("  %-62s %s\n", what.c_str(), text.c_str());
  std::fflush(stdout);
}

void print_target(const std::string& what, double figure, Target target) {
  const bool met = target.aim == Aim::at_least ? figure >= target.value : figure < target.value;
  std::printf("  %-62s %9s %-8s target %s %s: %s\n", what.c_str(), number(figure).c_str(),
              target.unit, target.aim == Aim::at_least ? ">=" : "<", number(target.value).c_str(),
              met ? "met" : "MISSED");
  std::fflush(stdout);
}

void die(const std::string& why) {
  std::fprintf(stderr, "waybill-bench: %s\n", why.c_str());
  std::exit(1);
}

}  // namespace waybill::bench
