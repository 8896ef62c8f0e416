#pragma once
// The one described table of everything that can be called. Dispatch, strict decoding, the
// reference page (docs/rpc.md) and the tests are made from it.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace waybill::edge {

enum class Method {
  hello,
  job_run,
  job_show,
  job_list,
  job_logs,
  job_wait,
  job_stop,
  job_write,
  session_attach,
  session_detach,
  session_show,
  session_list,
  session_wait,
  wake_wait,
  host_call,
  host_session,
  turn_begin,
  turn_step,
  turn_end,
  turn_stop,
  turn_resume,
  turn_abandon,
  inbox_take,
  delivery_flushed,
  delivery_returned,
  ack,
  status,
  doctor,
  owner_list,
  owner_release,
  reconcile,
  backup,
  shutdown,
  prune,
  version,
};

enum class ParamKind {
  text,        // valid UTF-8 without NUL, at most `max` bytes
  id,          // an id that a caller chose (base/ids.h)
  word,        // one of `words`
  number,      // whole, min..max
  flag,        // true or false
  bytes,       // base64 of any bytes without NUL
  any_bytes,   // base64 of any bytes, at most `max` of them
  text_list,   // at most `max` texts
  word_list,   // each one of `words`
  bytes_list,  // at most `max` base64 texts
  text_map,    // object of text to text
};

struct Param {
  std::string_view name;
  ParamKind kind = ParamKind::text;
  bool required = false;
  std::uint64_t min = 0;
  std::uint64_t max = 0;
  std::vector<std::string_view> words;
  std::string_view description;
};

struct MethodInfo {
  Method method;
  std::string_view name;
  std::string_view summary;
  std::vector<Param> params;
  std::string_view result;
  std::vector<ErrorCode> errors;  // besides bad_request and unavailable, which any call can get
};

// Most bytes that one job.write takes.
inline constexpr std::uint64_t kInputBytesMax = 64 * 1024;

const std::vector<MethodInfo>& methods();

// nullptr when there is none of that name.
const MethodInfo* find_method(std::string_view name);

// nullptr when the method has no such parameter.
const Param* find_param(const MethodInfo& info, std::string_view name);

// The word of a kind in the reference page and in messages: "text", "whole number" …
std::string_view kind_word(ParamKind kind);

}  // namespace waybill::edge
