#include "base/clock.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace waybill {

WallTime SystemClock::wall() const {
  return std::chrono::time_point_cast<Millis>(std::chrono::system_clock::now());
}

MonoTime SystemClock::mono() const { return std::chrono::steady_clock::now(); }

std::string format_rfc3339(WallTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
                static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()),
                static_cast<int>(clock.subseconds().count()));
  return text.data();
}

namespace {

struct Unit {
  std::string_view word;
  double factor;
};

// Splits one "<number><unit>" off the front of `text`; the product with the unit's factor, or
// nullopt.
template <std::size_t N>
std::optional<double> take_quantity(std::string_view& text, const std::array<Unit, N>& units) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || number < 0 || !std::isfinite(number)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  std::size_t letters = 0;
  while (letters < text.size() && ((text[letters] >= 'a' && text[letters] <= 'z') ||
                                   (text[letters] >= 'A' && text[letters] <= 'Z'))) {
    ++letters;
  }
  const std::string_view word = text.substr(0, letters);
  text.remove_prefix(letters);
  for (const Unit& unit : units) {
    if (unit.word == word) return number * unit.factor;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Millis> parse_duration(std::string_view text) {
  static constexpr std::array<Unit, 7> kUnits{{{"", 1000.0},
                                               {"ms", 1.0},
                                               {"s", 1000.0},
                                               {"m", 60'000.0},
                                               {"min", 60'000.0},
                                               {"h", 3'600'000.0},
                                               {"d", 86'400'000.0}}};
  if (text.empty()) return std::nullopt;
  double total = 0;
  while (!text.empty()) {
    const std::optional<double> part = take_quantity(text, kUnits);
    if (!part) return std::nullopt;
    total += *part;
  }
  if (total > 1e15) return std::nullopt;
  return Millis(static_cast<Millis::rep>(std::llround(total)));
}

std::optional<unsigned long long> parse_size(std::string_view text) {
  static constexpr std::array<Unit, 11> kUnits{{{"", 1.0},
                                                {"B", 1.0},
                                                {"kB", 1e3},
                                                {"KB", 1e3},
                                                {"MB", 1e6},
                                                {"GB", 1e9},
                                                {"K", 1024.0},
                                                {"KiB", 1024.0},
                                                {"M", 1048576.0},
                                                {"MiB", 1048576.0},
                                                {"GiB", 1073741824.0}}};
  if (text.empty()) return std::nullopt;
  const std::optional<double> bytes = take_quantity(text, kUnits);
  if (!bytes || !text.empty() || *bytes > 1e15) return std::nullopt;
  return static_cast<unsigned long long>(*bytes);
}

}  // namespace waybill
