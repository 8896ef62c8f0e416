#pragma once
// Distinct types for identifiers, so that a turn cannot be passed where a session is meant.

#include <compare>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace waybill {

template <class Tag>
class Id {
 public:
  Id() = default;
  explicit Id(std::string value) : value_(std::move(value)) {}

  const std::string& str() const { return value_; }
  bool empty() const { return value_.empty(); }

  friend auto operator<=>(const Id&, const Id&) = default;
  friend bool operator==(const Id&, const Id&) = default;

 private:
  std::string value_;
};

using TenantId = Id<struct TenantTag>;
using SessionId = Id<struct SessionTag>;
using TurnId = Id<struct TurnTag>;
using SandboxId = Id<struct SandboxTag>;
using GenerationId = Id<struct GenerationTag>;
using JobId = Id<struct JobTag>;
using EventId = Id<struct EventTag>;        // <job>.<receipt>.<n>
using DeliveryId = Id<struct DeliveryTag>;  // one hand-over of one or more inbox rows
using HostKey = Id<struct HostKeyTag>;      // the capability of a host; never shown to jobs
using IdempotencyKey = Id<struct IdempotencyKeyTag>;

// Limits on ids that callers choose (tenant, session, turn, host key, idempotency key).
inline constexpr std::size_t kIdBytesMax = 200;

// An id that a caller chose: 1 to 200 bytes of printable ASCII without blanks, quotes or slashes at
// the front, so that it is safe in a path, a log line and a shell. `what` names it in the error.
Result<void> check_id(std::string_view value, std::string_view what);

template <class IdType>
Result<IdType> parse_id(std::string_view value, std::string_view what) {
  TRY(check_id(value, what));
  return IdType(std::string(value));
}

// Makes ids that sort by time: "<prefix>" + 26 characters of a 48-bit millisecond time and 80
// random bits. The caller supplies both, so that the core stays free of clocks and of randomness.
std::string make_sortable_id(std::string_view prefix, unsigned long long unix_ms,
                             const unsigned char random[10]);

}  // namespace waybill

template <class Tag>
struct std::hash<waybill::Id<Tag>> {
  std::size_t operator()(const waybill::Id<Tag>& id) const noexcept {
    return std::hash<std::string>{}(id.str());
  }
};
