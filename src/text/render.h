#pragma once
// From the raw bytes of a job to text that a model or a person can read.
//
// Guarantees, for any bytes and whatever the pieces they are pushed in:
// - The result is valid UTF-8. Its only control characters are newline and tab.
// - Invalid UTF-8 is one U+FFFD per maximal subpart; a character split over two pushes is whole.
// - A line that `\r` rewinds keeps its last frame: the first character after `\r` starts the line
//   anew. `\r\n` is a newline, and `a\rb\nc\n` gives `b\nc\n`. Backspace steps back, and the next
//   character replaces what was there and behind. Column 1 (`ESC [ G`) is a `\r`; erasing the line
//   (`ESC [ 2 K`, or K and J at its start) empties it. Other movements of the cursor are ignored.
// - Escape sequences are removed: ESC and its finals, CSI, and the strings OSC, DCS, SOS, PM, APC
//   up to their terminator. A sequence that is not finished ends at a newline, a CSI also after 64
//   and a string after 4096 characters, so that a torn one cannot swallow what follows.
// - NUL, vertical tab and form feed are shown as ␀ ␋ ␌; other C0 and C1 controls are removed.
// - Invisible and bidirectional format characters are shown as `\u{202e}` (text/visible.h).
// - Memory: at most kLineBytesMax of a line are held. A longer line is given out in part and can no
//   longer be rewound: when it is, the mark `␍` and a newline stand before its next frame.
// Not thread-safe; one renderer per stream.

#include <cstddef>
#include <string>
#include <string_view>

namespace waybill::text {

class Renderer {
 public:
  static constexpr std::size_t kLineBytesMax = 64 * 1024;

  // The lines that these bytes complete.
  std::string push(std::string_view bytes);

  // The line that is not complete yet, as it stands (for a live view); changes nothing.
  std::string pending() const;

  // The end of the stream: the last line without a newline, a torn character as U+FFFD. The
  // renderer starts anew.
  std::string finish();

 private:
  enum class State { ground, escape, csi, string, string_escape };

  void take(char32_t code);
  void take_ground(char32_t code);
  void take_escape(char32_t code);
  void take_csi(char32_t code);
  void take_string(char32_t code);
  void print(char32_t code);
  void newline();
  void erase_line(bool whole);
  void emit_line();

  std::string held_;  // an incomplete character
  std::string out_;
  std::string line_;        // UTF-8, invisible characters not yet escaped
  std::size_t back_ = 0;    // backspaces since the last character
  bool rewound_ = false;    // a carriage return since the last character
  bool given_out_ = false;  // the beginning of this line has been given out
  State state_ = State::ground;
  std::size_t sequence_ = 0;  // characters of the current sequence
  std::string parameters_;    // of a CSI, at most 64
};

std::string render(std::string_view bytes);

}  // namespace waybill::text
