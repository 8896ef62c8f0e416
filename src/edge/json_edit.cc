#include "edge/json_edit.h"

#include <algorithm>
#include <boost/json.hpp>

#include "edge/json_scan.h"

namespace waybill::edge {
namespace {

namespace json = boost::json;

// How what is inserted is laid out.
struct Style {
  bool lines = true;  // every member on a line of its own
  bool spaced = true;
  std::string newline;
  std::string indent;  // of the line that the value begins on
  std::string unit;
};

std::string newline_of(std::string_view text) {
  const std::size_t at = text.find('\n');
  return at != std::string_view::npos && at > 0 && text[at - 1] == '\r' ? "\r\n" : "\n";
}

// What stands in front of the first character of a line; nullopt when there is no line break.
std::optional<std::string> indent_in(std::string_view lead) {
  const std::size_t at = lead.rfind('\n');
  if (at == std::string_view::npos) return std::nullopt;
  return std::string(lead.substr(at + 1));
}

void render(const json::value& value, const Style& style, const std::string& indent,
            std::string& out) {
  const json::object* object = value.if_object();
  const json::array* array = value.if_array();
  const std::size_t size = object != nullptr  ? object->size()
                           : array != nullptr ? array->size()
                                              : 0;
  if (size == 0) {
    out += json::serialize(value);
    return;
  }
  const std::string inner = indent + style.unit;
  out += object != nullptr ? '{' : '[';
  for (std::size_t i = 0; i < size; ++i) {
    if (i > 0) out += style.lines || !style.spaced ? "," : ", ";
    if (style.lines) out += style.newline + inner;
    if (object != nullptr) {
      const json::key_value_pair& member = *(object->begin() + static_cast<std::ptrdiff_t>(i));
      out += json::serialize(member.key());
      out += style.lines || style.spaced ? ": " : ":";
      render(member.value(), style, inner, out);
    } else {
      render((*array)[i], style, inner, out);
    }
  }
  if (style.lines) out += style.newline + indent;
  out += object != nullptr ? '}' : ']';
}

std::string member_text(const std::optional<std::string>& key, const json::value& value,
                        const Style& style, const std::string& indent) {
  std::string out;
  if (key) out = json::serialize(json::string(*key)) + (style.lines || style.spaced ? ": " : ":");
  render(value, style, indent, out);
  return out;
}

// A container on the way to a place, and which of its children the way takes.
struct Hop {
  JsonContainer container;
  std::size_t child = 0;
};

std::optional<std::size_t> child_at(const JsonContainer& container, const JsonStep& step) {
  if (const std::size_t* index = std::get_if<std::size_t>(&step)) {
    if (container.object || *index >= container.children.size()) return std::nullopt;
    return *index;
  }
  if (!container.object) return std::nullopt;
  const std::string& key = std::get<std::string>(step);
  for (std::size_t i = container.children.size(); i > 0; --i) {
    if (container.children[i - 1].key == key) return i - 1;
  }
  return std::nullopt;
}

// The way as far as it goes; complete when it has as many hops as the path has steps.
std::vector<Hop> way(std::string_view text, const JsonPath& path) {
  std::vector<Hop> out;
  std::size_t at = json_start(text);
  for (const JsonStep& step : path) {
    std::optional<JsonContainer> container = json_container(text, at);
    if (!container) break;
    const std::optional<std::size_t> child = child_at(*container, step);
    if (!child) break;
    at = container->children[*child].value;
    out.push_back({std::move(*container), *child});
  }
  return out;
}

std::size_t place_of(std::string_view text, const std::vector<Hop>& hops) {
  if (hops.empty()) return json_start(text);
  return hops.back().container.children[hops.back().child].value;
}

std::string unit_of(std::string_view text) {
  const std::optional<JsonContainer> root = json_container(text, json_start(text));
  if (!root || root->children.empty()) return "  ";
  return indent_in(json_lead(text, *root, 0)).value_or("  ");
}

// How members of the container at the end of `hops` are laid out.
Style style_of(std::string_view text, const JsonContainer& container,
               const std::vector<Hop>& hops) {
  Style style;
  style.newline = newline_of(text);
  style.unit = unit_of(text);
  if (!container.children.empty()) {
    const std::string_view lead = json_lead(text, container, container.children.size() - 1);
    const std::optional<std::string> indent = indent_in(lead);
    const JsonChild& last = container.children.back();
    style.lines = indent.has_value();
    style.spaced =
        !lead.empty() || (container.object && last.value > 0 && text[last.value - 1] == ' ');
    style.indent = indent.value_or("");
    return style;
  }
  std::optional<std::string> outer = std::string();
  if (!hops.empty()) outer = indent_in(json_lead(text, hops.back().container, hops.back().child));
  const std::string_view inside =
      text.substr(container.open + 1, container.close - container.open - 1);
  style.lines = outer.has_value() || inside.find('\n') != std::string_view::npos;
  style.spaced = false;
  style.indent = outer.value_or("") + (style.lines ? style.unit : "");
  return style;
}

// What was between the brackets before the only child came, by the white space in front of it;
// nullopt: the brackets were not there.
std::optional<std::string> inside_before(std::string_view lead) {
  const std::size_t newline = lead.rfind('\n');
  std::string_view rest = lead.substr(0, std::min(newline, lead.size()));
  if (newline != std::string_view::npos && rest.ends_with('\r')) rest.remove_suffix(1);
  if (rest.empty()) return std::nullopt;
  if (rest.ends_with(' ')) rest.remove_suffix(1);
  return std::string(rest);
}

std::string key_of(const JsonStep& step) {
  if (const std::string* key = std::get_if<std::string>(&step)) return *key;
  return "";
}

}  // namespace

JsonText::JsonText(std::string text, std::string name, bool fresh)
    : text_(std::move(text)), name_(std::move(name)), fresh_(fresh) {}

tl::unexpected<Error> JsonText::refused(std::size_t at, const std::string& why) const {
  return fail(ErrorCode::bad_request,
              name_ + ":" + position_in(text_, at) + ": " + why + "; nothing was changed.");
}

Result<JsonText> JsonText::parse(std::string text, std::string name) {
  if (text.size() > kEditBytesMax) {
    return fail(ErrorCode::too_large, name + " is larger than 64 MiB; nothing was changed.");
  }
  JsonText out(std::move(text), std::move(name), false);
  if (const std::optional<ScanFault> fault = check_json(out.text_, kEditDepthMax)) {
    return out.refused(fault->at, "this is not JSON: " + fault->what);
  }
  if (out.kind({}) != JsonKind::object) {
    return out.refused(json_start(out.text_), "an object is expected");
  }
  return out;
}

JsonText JsonText::fresh(std::string name) { return JsonText("{}\n", std::move(name), true); }

std::optional<std::string_view> JsonText::value(const JsonPath& path) const {
  const std::vector<Hop> hops = way(text_, path);
  if (hops.size() != path.size()) return std::nullopt;
  const std::size_t at = place_of(text_, hops);
  return std::string_view(text_).substr(at, json_value_end(text_, at) - at);
}

std::optional<JsonKind> JsonText::kind(const JsonPath& path) const {
  const std::vector<Hop> hops = way(text_, path);
  if (hops.size() != path.size()) return std::nullopt;
  const std::size_t at = place_of(text_, hops);
  if (at >= text_.size()) return std::nullopt;
  return text_[at] == '{' ? JsonKind::object : text_[at] == '[' ? JsonKind::array : JsonKind::other;
}

std::vector<std::string> JsonText::keys(const JsonPath& path) const {
  std::vector<std::string> out;
  const std::vector<Hop> hops = way(text_, path);
  if (hops.size() != path.size()) return out;
  const std::optional<JsonContainer> container = json_container(text_, place_of(text_, hops));
  if (!container || !container->object) return out;
  for (const JsonChild& child : container->children) {
    if (std::find(out.begin(), out.end(), child.key) == out.end()) out.push_back(child.key);
  }
  return out;
}

std::size_t JsonText::count(const JsonPath& path) const {
  const std::vector<Hop> hops = way(text_, path);
  if (hops.size() != path.size()) return 0;
  const std::optional<JsonContainer> container = json_container(text_, place_of(text_, hops));
  return container ? container->children.size() : 0;
}

std::optional<json::value> JsonText::parsed(const JsonPath& path) const {
  const std::optional<std::string_view> text = value(path);
  if (!text) return std::nullopt;
  json::parse_options options;
  options.max_depth = kEditDepthMax;
  json::error_code error;
  json::value out = json::parse({text->data(), text->size()}, error, {}, options);
  if (error) return std::nullopt;
  return out;
}

Result<void> JsonText::set(const JsonPath& path, const json::value& value) {
  const std::vector<Hop> hops = way(text_, path);
  if (path.empty() || hops.size() != path.size()) return add(path, value, false);
  const Hop& last = hops.back();
  const Style style = style_of(text_, last.container, hops);
  const JsonChild& child = last.container.children[last.child];
  const std::string indent =
      indent_in(json_lead(text_, last.container, last.child)).value_or(style.indent);
  text_.replace(child.value, child.end - child.value,
                member_text(std::nullopt, value, style, indent));
  return {};
}

Result<void> JsonText::push(const JsonPath& keys, const json::value& value) {
  return add(keys, value, true);
}

// Inserts at the first place on the way that is missing, wrapped into what lies below it.
Result<void> JsonText::add(const JsonPath& keys, const json::value& value, bool element) {
  std::vector<Hop> hops = way(text_, keys);
  const bool complete = hops.size() == keys.size();
  const std::size_t at = place_of(text_, hops);
  const std::optional<JsonContainer> container = json_container(text_, at);
  const bool wants_array = complete && element;
  if (!container || container->object == wants_array || (complete && !element)) {
    const std::string name = hops.empty() ? "" : "`" + key_of(keys[hops.size() - 1]) + "`: ";
    return refused(at, name + (wants_array ? "an array is expected" : "an object is expected"));
  }
  json::value inner = value;
  if (element && !complete) inner = json::array{inner};
  for (std::size_t i = keys.size(); i > hops.size() + 1; --i) {
    json::object outer;
    outer[key_of(keys[i - 1])] = std::move(inner);
    inner = std::move(outer);
  }
  std::optional<std::string> key;
  if (!complete) key = key_of(keys[hops.size()]);
  const Style style = style_of(text_, *container, hops);
  const std::string member = member_text(key, inner, style, style.indent);
  const std::string line = style.lines ? style.newline + style.indent : "";
  if (!container->children.empty()) {
    const std::string blank = style.spaced && !style.lines ? " " : "";
    text_.insert(container->children.back().end, "," + line + blank + member);
    return {};
  }
  std::string inside = fresh_ && hops.empty() ? "" : " ";
  inside += line + member;
  if (style.lines) {
    inside += style.newline + style.indent.substr(0, style.indent.size() - style.unit.size());
  }
  text_.insert(container->close, inside);
  return {};
}

bool JsonText::remove(const JsonPath& path) {
  std::vector<Hop> hops = way(text_, path);
  if (path.empty() || hops.size() != path.size()) return true;
  for (; !hops.empty(); hops.pop_back()) {
    const JsonContainer& container = hops.back().container;
    const std::vector<JsonChild>& children = container.children;
    const std::size_t child = hops.back().child;
    if (children.size() > 1) {
      const std::size_t from = child > 0 ? children[child - 1].end : children[0].begin;
      const std::size_t to = child > 0 ? children[child].end : children[1].begin;
      text_.erase(from, to - from);
      return true;
    }
    if (const auto inside = inside_before(json_lead(text_, container, 0))) {
      text_.replace(container.open + 1, container.close - container.open - 1, *inside);
      return true;
    }
  }
  return false;
}

}  // namespace waybill::edge
