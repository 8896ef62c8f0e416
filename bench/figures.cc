#include "figures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace waybill::bench {
namespace {

int width(std::string_view text) { return static_cast<int>(text.size()); }

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

void print_section(std::string_view title) {
  std::printf("\n%.*s\n", width(title), title.data());
  std::fflush(stdout);
}

void print_row(std::string_view what, const Samples& samples, std::string_view unit) {
  const std::string middle = number(median(samples));
  const std::string low = number(percentile(samples, 0));
  const std::string high = number(percentile(samples, 1));
  std::printf("  %-62.*s %9s %-8.*s [%s .. %s]\n", width(what), what.data(), middle.c_str(),
              width(unit), unit.data(), low.c_str(), high.c_str());
  std::fflush(stdout);
}

void print_text(std::string_view what, std::string_view text) {
  std::printf("  %-62.*s %.*s\n", width(what), what.data(), width(text), text.data());
  std::fflush(stdout);
}

void print_target(std::string_view what, double figure, Target target) {
  const bool met = target.aim == Aim::at_least ? figure >= target.value : figure < target.value;
  std::printf("  %-62.*s %9s %-8.*s target %s %s: %s\n", width(what), what.data(),
              number(figure).c_str(), width(target.unit), target.unit.data(),
              target.aim == Aim::at_least ? ">=" : "<", number(target.value).c_str(),
              met ? "met" : "MISSED");
  std::fflush(stdout);
}

void die(std::string_view why) {
  std::fprintf(stderr, "waybill-bench: %.*s\n", width(why), why.data());
  std::exit(1);
}

}  // namespace waybill::bench
