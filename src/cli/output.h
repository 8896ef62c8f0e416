#pragma once
// What is printed: one place that knows about terminals, colours and text that cannot be trusted.

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/result.h"

namespace waybill::cli {

enum class Colour { none, green, red, yellow, grey, bold };

bool stdout_is_terminal();

// `text` in colour, on a terminal without NO_COLOR; otherwise as it is.
std::string coloured(Colour colour, std::string_view text);

// Job text that is safe on a terminal: no escapes and no other control characters. `safe_line` is
// one line, `safe_block` keeps newlines and tabs.
std::string safe_line(std::string_view text);
std::string safe_block(std::string_view text);

// To stdout; the first failure is kept and reported by flush_stdout.
void print(std::string_view text);
void print_line(std::string_view text);

// Everything printed so far is with the reader's side of the pipe or file.
Result<void> flush_stdout();

// "waybill: <text>" on stderr.
void note(std::string_view text);

// "waybill: <sentence> [code]" on stderr; with json also {"error":{"code","message"}}.
void print_error(const Error& error, bool json);

// Rows with columns aligned by what is seen; the last column is not padded.
class Table {
 public:
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace waybill::cli
