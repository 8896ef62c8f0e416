#pragma once
// The one database layer. Statements are written once with $1, $2 …; SQLite sees ?1, ?2 …,
// PostgreSQL will take them as they are. A Database belongs to one thread.

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "core/words.h"

namespace waybill::store {

// Bytes as bytes: bound as BLOB, not as text.
struct Bytes {
  std::string_view view;
};

// A bound value. It borrows text and bytes: valid for the call it is passed to.
class Param {
 public:
  enum class Kind { null, integer, text, bytes };

  Param(std::nullopt_t) : kind_(Kind::null) {}
  template <std::integral I>
  Param(I value) : kind_(Kind::integer), integer_(static_cast<std::int64_t>(value)) {}
  Param(std::string_view value) : kind_(Kind::text), text_(value) {}
  Param(const std::string& value) : kind_(Kind::text), text_(value) {}
  Param(const char* value) : kind_(Kind::text), text_(value) {}
  Param(Bytes value) : kind_(Kind::bytes), text_(value.view) {}
  Param(WallTime value) : kind_(Kind::integer), integer_(value.time_since_epoch().count()) {}
  Param(Millis value) : kind_(Kind::integer), integer_(value.count()) {}
  template <class Tag>
  Param(const Id<Tag>& value) : kind_(Kind::text), text_(value.str()) {}
  template <class Enum>
    requires std::is_enum_v<Enum>
  Param(Enum value) : kind_(Kind::text), text_(core::to_word(value)) {}
  template <class T>
  Param(const std::optional<T>& value) : Param(std::nullopt) {
    if (value) *this = Param(*value);
  }

  Kind kind() const { return kind_; }
  std::int64_t integer() const { return integer_; }
  std::string_view text() const { return text_; }

 private:
  Kind kind_;
  std::int64_t integer_ = 0;
  std::string_view text_;
};

using Params = std::initializer_list<Param>;

// One row of a result; views are valid until the callback returns.
class Row {
 public:
  virtual ~Row() = default;
  virtual bool null(int column) const = 0;
  virtual std::int64_t integer(int column) const = 0;
  virtual std::string_view text(int column) const = 0;  // bytes of a text or blob column

  std::string string(int column) const { return std::string(text(column)); }
  std::optional<std::int64_t> maybe_integer(int column) const {
    if (null(column)) return std::nullopt;
    return integer(column);
  }
  std::optional<std::string> maybe_string(int column) const {
    if (null(column)) return std::nullopt;
    return string(column);
  }
  WallTime time(int column) const { return WallTime(Millis(integer(column))); }
  std::optional<WallTime> maybe_time(int column) const {
    if (null(column)) return std::nullopt;
    return time(column);
  }
};

using EachRow = std::function<Result<void>(const Row&)>;

class Database {
 public:
  virtual ~Database() = default;

  // Runs one statement that returns no rows; the number of rows it changed.
  virtual Result<std::int64_t> run(std::string_view sql, Params params) = 0;
  // Calls `each` per row; an error it returns ends the statement and is passed on.
  virtual Result<void> each(std::string_view sql, Params params, const EachRow& each) = 0;
  // Several statements at once, without parameters: schema only.
  virtual Result<void> script(std::string_view sql) = 0;

  virtual Result<void> begin() = 0;   // takes the write lock at once
  virtual Result<void> commit() = 0;  // on error nothing is known to be durable
  virtual void rollback() = 0;
  virtual Result<void> savepoint() = 0;
  virtual Result<void> release() = 0;
  virtual Result<void> rollback_to() = 0;
  // Some errors end the whole transaction on their own (SQLITE_FULL): asked after every error.
  virtual bool in_transaction() const = 0;
  // The last error says for certain that nothing was written, and why may pass: the disk is full
  // or its file system read-only. After any other error of a commit, what is on the disk is open.
  virtual bool wrote_nothing() const = 0;
  // Told of damage: a page that was read does not hold what it must. After that nothing that is
  // read here can be trusted.
  virtual void on_damage(std::function<void(const std::string&)> told) = 0;

  // The first row, or nullopt.
  template <class T>
  Result<std::optional<T>> first(std::string_view sql, Params params,
                                 const std::function<Result<T>(const Row&)>& read) {
    std::optional<T> found;
    TRY(each(sql, params, [&](const Row& row) -> Result<void> {
      if (found) return {};
      TRY_ASSIGN(T value, read(row));
      found = std::move(value);
      return {};
    }));
    return found;
  }

  Result<std::int64_t> integer(std::string_view sql, Params params) {
    std::int64_t value = 0;
    TRY(each(sql, params, [&](const Row& row) -> Result<void> {
      value = row.null(0) ? 0 : row.integer(0);
      return {};
    }));
    return value;
  }
};

// A word of an enumeration read back from a column; anything else is state_corrupt, naming the
// column.
template <class Enum>
Result<Enum> read_word(std::string_view text, std::string_view column) {
  if (const auto value = core::from_word<Enum>(text)) return *value;
  return fail(ErrorCode::state_corrupt, "Column " + std::string(column) + " holds \"" +
                                            std::string(text) +
                                            "\", which this version does not know.");
}

template <class Enum>
Result<std::optional<Enum>> read_maybe_word(const Row& row, int column, std::string_view name) {
  if (row.null(column)) return std::optional<Enum>();
  TRY_ASSIGN(const Enum value, read_word<Enum>(row.text(column), name));
  return std::optional<Enum>(value);
}

}  // namespace waybill::store
