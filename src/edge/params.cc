#include "edge/params.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/check.h"
#include "base/ids.h"
#include "edge/json.h"

namespace waybill::edge {
namespace {

namespace json = boost::json;

std::string quoted(std::string_view name) { return "\"" + valid_utf8(name) + "\""; }

tl::unexpected<Error> wrong_type(const Param& param) {
  std::string message =
      "Parameter " + quoted(param.name) + " must be a " + std::string(kind_word(param.kind));
  if (!param.words.empty()) {
    message += ", one of";
    for (const std::string_view word : param.words) message += " " + std::string(word);
  }
  return fail(ErrorCode::bad_request, message + ".");
}

tl::unexpected<Error> too_large(const Param& param, std::size_t size) {
  return fail(ErrorCode::too_large, "Parameter " + quoted(param.name) + " has " +
                                        std::to_string(size) + "; at most " +
                                        std::to_string(param.max) + " are allowed.");
}

Result<std::string> plain_text(const Param& param, const json::value& value) {
  const json::string* text = value.if_string();
  if (text == nullptr) return wrong_type(param);
  std::string out(text->data(), text->size());
  if (out.find('\0') != std::string::npos) {
    return fail(ErrorCode::bad_request,
                "Parameter " + quoted(param.name) + " must not hold a NUL byte.");
  }
  return out;
}

Result<std::string> text_value(const Param& param, const json::value& value) {
  TRY_ASSIGN(std::string out, plain_text(param, value));
  if (param.max != 0 && out.size() > param.max) return too_large(param, out.size());
  return out;
}

Result<std::string> bytes_value(const Param& param, const json::value& value) {
  TRY_ASSIGN(const std::string text, plain_text(param, value));
  std::optional<std::string> out = from_base64(text);
  if (!out) {
    return fail(ErrorCode::bad_request,
                "Parameter " + quoted(param.name) + " must be base64 with padding.");
  }
  if (out->size() > param.max) return too_large(param, out->size());
  if (param.kind != ParamKind::any_bytes && out->find('\0') != std::string::npos) {
    return fail(ErrorCode::bad_request,
                "Parameter " + quoted(param.name) + " must not hold a NUL byte.");
  }
  return std::move(*out);
}

Result<std::string> word_value(const Param& param, const json::value& value) {
  TRY_ASSIGN(std::string out, plain_text(param, value));
  if (std::find(param.words.begin(), param.words.end(), out) == param.words.end()) {
    return wrong_type(param);
  }
  return out;
}

Result<std::string> id_value(const Param& param, const json::value& value) {
  TRY_ASSIGN(std::string out, plain_text(param, value));
  TRY(check_id(out, "Parameter " + quoted(param.name)));
  return out;
}

Result<std::uint64_t> number_value(const Param& param, const json::value& value) {
  std::uint64_t out = 0;
  if (value.is_uint64()) {
    out = value.get_uint64();
  } else if (value.is_int64() && value.get_int64() >= 0) {
    out = static_cast<std::uint64_t>(value.get_int64());
  } else if (!value.is_int64()) {
    return wrong_type(param);
  }
  if (out < param.min || out > param.max || (value.is_int64() && value.get_int64() < 0)) {
    return fail(ErrorCode::bad_request, "Parameter " + quoted(param.name) + " must lie between " +
                                            std::to_string(param.min) + " and " +
                                            std::to_string(param.max) + ".");
  }
  return out;
}

Result<Params::List> list_value(const Param& param, const json::value& value) {
  const json::array* items = value.if_array();
  if (items == nullptr) return wrong_type(param);
  if (items->size() > param.max) return too_large(param, items->size());
  Param element = param;
  element.max = kLineBytesMax;
  Params::List out;
  out.reserve(items->size());
  for (const json::value& item : *items) {
    Result<std::string> one = param.kind == ParamKind::bytes_list  ? bytes_value(element, item)
                              : param.kind == ParamKind::word_list ? word_value(element, item)
                                                                   : text_value(element, item);
    if (!one) return fail(std::move(one.error()));
    out.push_back(std::move(*one));
  }
  return out;
}

Result<Params::Pairs> map_value(const Param& param, const json::value& value) {
  const json::object* object = value.if_object();
  if (object == nullptr) return wrong_type(param);
  Params::Pairs out;
  out.reserve(object->size());
  for (const json::key_value_pair& pair : *object) {
    const std::string key(pair.key());
    if (key.empty() || key.find('=') != std::string::npos || key.find('\0') != std::string::npos) {
      return fail(ErrorCode::bad_request, "Parameter " + quoted(param.name) +
                                              " has a name that cannot be one: " + quoted(key) +
                                              ".");
    }
    TRY_ASSIGN(std::string text, text_value(param, pair.value()));
    out.emplace_back(key, std::move(text));
  }
  return out;
}

template <class T>
Result<Params::Value> as_value(Result<T> value) {
  if (!value) return fail(std::move(value.error()));
  return Params::Value(std::move(*value));
}

Result<Params::Value> value_of(const Param& param, const json::value& value) {
  switch (param.kind) {
    case ParamKind::text:
      return as_value(text_value(param, value));
    case ParamKind::id:
      return as_value(id_value(param, value));
    case ParamKind::word:
      return as_value(word_value(param, value));
    case ParamKind::bytes:
    case ParamKind::any_bytes:
      return as_value(bytes_value(param, value));
    case ParamKind::number:
      return as_value(number_value(param, value));
    case ParamKind::flag:
      if (!value.is_bool()) return wrong_type(param);
      return Params::Value(value.get_bool());
    case ParamKind::text_list:
    case ParamKind::word_list:
    case ParamKind::bytes_list:
      return as_value(list_value(param, value));
    case ParamKind::text_map:
      return as_value(map_value(param, value));
  }
  return wrong_type(param);
}

}  // namespace

Result<Params> Params::decode(const MethodInfo& info, const json::value* params) {
  Params out(info);
  const json::object* object = params == nullptr ? nullptr : params->if_object();
  if (params != nullptr && object == nullptr && !params->is_null()) {
    return fail(ErrorCode::bad_request, "\"params\" of " + std::string(info.name) +
                                            " must be an object with named fields.");
  }
  if (object != nullptr) {
    for (const json::key_value_pair& pair : *object) {
      const std::string name(pair.key());
      const Param* param = find_param(info, name);
      if (param == nullptr) {
        return fail(ErrorCode::bad_request, std::string(info.name) + " has no parameter " +
                                                quoted(name) + "; see docs/rpc.md.");
      }
      if (pair.value().is_null()) continue;
      TRY_ASSIGN(Value value, value_of(*param, pair.value()));
      out.values_.insert_or_assign(name, std::move(value));
    }
  }
  for (const Param& param : info.params) {
    if (param.required && !out.has(param.name)) {
      return fail(ErrorCode::bad_request,
                  std::string(info.name) + " needs the parameter " + quoted(param.name) + ".");
    }
  }
  return out;
}

const Params::Value* Params::find(std::string_view name) const {
  CHECK(find_param(*info_, name) != nullptr);
  const auto at = values_.find(name);
  return at == values_.end() ? nullptr : &at->second;
}

bool Params::has(std::string_view name) const { return find(name) != nullptr; }

std::string Params::text(std::string_view name) const { return find_text(name).value_or(""); }

std::optional<std::string> Params::find_text(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  return std::get<std::string>(*value);
}

std::optional<std::uint64_t> Params::number(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  return std::get<std::uint64_t>(*value);
}

bool Params::takes(std::string_view name) const { return find_param(*info_, name) != nullptr; }

bool Params::flag(std::string_view name) const {
  const Value* value = find(name);
  return value != nullptr && std::get<bool>(*value);
}

Params::List Params::list(std::string_view name) const {
  const Value* value = find(name);
  return value == nullptr ? List{} : std::get<List>(*value);
}

Params::Pairs Params::pairs(std::string_view name) const {
  const Value* value = find(name);
  return value == nullptr ? Pairs{} : std::get<Pairs>(*value);
}

}  // namespace waybill::edge
