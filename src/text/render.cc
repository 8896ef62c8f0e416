#include "text/render.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"
#include "text/visible.h"

namespace waybill::text {
namespace {

constexpr std::size_t kCsiMax = 64;
constexpr std::size_t kStringMax = 4096;
constexpr char32_t kEscape = 0x1B;

void append_line(std::string& out, std::string_view line) {
  while (!line.empty()) {
    const Character character = first_character(line);
    append_visible(out, character.code);
    line.remove_prefix(character.size);
  }
}

bool opens_string(char32_t c1) {
  return c1 == 0x90 || c1 == 0x98 || c1 == 0x9D || c1 == 0x9E || c1 == 0x9F;
}

}  // namespace

std::string Renderer::push(std::string_view bytes) {
  std::string joined;
  if (!held_.empty()) {
    joined = std::move(held_);
    joined += bytes;
    bytes = joined;
  }
  held_.clear();
  while (!bytes.empty()) {
    const Character character = first_character(bytes);
    if (character.kind == Character::Kind::incomplete) {
      held_.assign(bytes);
      break;
    }
    take(character.code);
    bytes.remove_prefix(character.size);
  }
  return std::exchange(out_, {});
}

std::string Renderer::pending() const {
  std::string text;
  append_line(text, line_);
  return text;
}

std::string Renderer::finish() {
  if (!held_.empty()) take(0xFFFD);
  emit_line();
  std::string text = std::move(out_);
  *this = Renderer{};
  return text;
}

void Renderer::take(char32_t code) {
  switch (state_) {
    case State::ground:
      return take_ground(code);
    case State::escape:
      return take_escape(code);
    case State::csi:
      return take_csi(code);
    case State::string:
    case State::string_escape:
      return take_string(code);
  }
}

void Renderer::take_ground(char32_t code) {
  if (!is_control(code) || code == '\t') return print(code);
  sequence_ = 0;
  if (code == '\n') {
    newline();
  } else if (code == '\r') {
    rewound_ = true;
    back_ = 0;
  } else if (code == '\b') {
    ++back_;
  } else if (code == 0 || code == '\v' || code == '\f') {
    print(0x2400 + code);
  } else if (code == kEscape) {
    state_ = State::escape;
  } else if (code == 0x9B) {
    parameters_.clear();
    state_ = State::csi;
  } else if (opens_string(code)) {
    state_ = State::string;
  }
}

// Behind ESC: an introducer, or intermediates and one final.
void Renderer::take_escape(char32_t code) {
  if (code >= 0x20 && code <= 0x2F && ++sequence_ < kCsiMax) return;
  const bool bare = sequence_ == 0;
  state_ = State::ground;
  sequence_ = 0;
  if (bare && code == '[') {
    parameters_.clear();
    state_ = State::csi;
  } else if (bare && code >= 0x40 && code <= 0x5F && opens_string(code + 0x40)) {
    state_ = State::string;
  } else if (code < 0x30 || code > 0x7E) {
    take_ground(code);
  }
}

void Renderer::take_csi(char32_t code) {
  if (code >= 0x20 && code <= 0x3F && ++sequence_ < kCsiMax) {
    parameters_ += static_cast<char>(code);
    return;
  }
  state_ = State::ground;
  sequence_ = 0;
  if (code == 'K' || code == 'J') {
    if (parameters_ == "2") erase_line(true);
    if (parameters_.empty() || parameters_ == "0") erase_line(false);
  } else if (code == 'G') {
    if (parameters_.empty() || parameters_ == "0" || parameters_ == "1") take_ground('\r');
  } else if (code < 0x40 || code > 0x7E) {
    take_ground(code);
  }
}

// Up to BEL, ESC \, the C1 terminator or cancel.
void Renderer::take_string(char32_t code) {
  const bool after_escape = state_ == State::string_escape;
  state_ = State::ground;
  if (after_escape && code != '\\') {
    sequence_ = 0;
    state_ = State::escape;
    return take_escape(code);
  }
  if (after_escape || code == 0x07 || code == 0x9C || code == 0x18 || code == 0x1A) {
    sequence_ = 0;
    return;
  }
  if (code == '\n' || ++sequence_ >= kStringMax) {
    sequence_ = 0;
    return take_ground(code);
  }
  state_ = code == kEscape ? State::string_escape : State::string;
}

void Renderer::print(char32_t code) {
  if (rewound_) {
    erase_line(true);
    rewound_ = false;
  }
  for (; back_ > 0 && !line_.empty(); --back_)
    line_.resize(boundary_before(line_, line_.size() - 1));
  back_ = 0;
  append_utf8(line_, code);
  if (line_.size() < kLineBytesMax) return;
  append_line(out_, line_);
  line_.clear();
  given_out_ = true;
}

void Renderer::newline() {
  emit_line();
  out_ += '\n';
}

void Renderer::emit_line() {
  append_line(out_, line_);
  line_.clear();
  back_ = 0;
  rewound_ = false;
  given_out_ = false;
}

// Empties the line; unless `whole`, only when the cursor stands at its start.
void Renderer::erase_line(bool whole) {
  if (!whole && !rewound_) return;
  if (given_out_) out_ += "␍\n";
  given_out_ = false;
  line_.clear();
  back_ = 0;
}

std::string render(std::string_view bytes) {
  Renderer renderer;
  std::string text = renderer.push(bytes);
  return text += renderer.finish();
}

}  // namespace waybill::text
