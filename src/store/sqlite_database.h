#pragma once
// SQLite under the database layer: WAL, synchronous=FULL, BEGIN IMMEDIATE, extended result codes.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "store/database.h"

struct sqlite3;
struct sqlite3_stmt;

namespace waybill::store {

enum class OpenMode { read_write, read_only };

class SqliteDatabase final : public Database {
 public:
  // Opens or creates the file. Errors: state_corrupt (not a database), store_full, unavailable.
  static Result<std::unique_ptr<SqliteDatabase>> open(const std::string& path, OpenMode mode);
  ~SqliteDatabase() override;

  // Until this is said, closing leaves store and log as they were found: what is refused is not
  // changed.
  void accept_store();

  Result<std::int64_t> run(std::string_view sql, Params params) override;
  Result<void> each(std::string_view sql, Params params, const EachRow& each) override;
  Result<void> script(std::string_view sql) override;
  Result<void> begin() override;
  Result<void> commit() override;
  void rollback() override;
  Result<void> savepoint() override;
  Result<void> release() override;
  Result<void> rollback_to() override;
  bool in_transaction() const override;
  bool wrote_nothing() const override { return wrote_nothing_; }
  void on_damage(std::function<void(const std::string&)> told) override {
    damaged_ = std::move(told);
  }

  // A statement under way ends with an error soon after this becomes true.
  void stop_when(const std::atomic<bool>& stop);

  // What was run so far, and how many steps of SQLite's machine it took: what a test counts.
  std::map<std::string, std::uint64_t> steps() const;

 private:
  explicit SqliteDatabase(sqlite3* handle) : handle_(handle) {}
  Result<void> configure(OpenMode mode);
  Result<sqlite3_stmt*> prepare(std::string_view sql);
  Result<sqlite3_stmt*> bind(std::string_view sql, Params params);
  Error error(std::string_view sql) const;

  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  sqlite3* handle_;
  bool accepted_ = false;
  mutable bool wrote_nothing_ = false;  // of the last error
  std::function<void(const std::string&)> damaged_;
  std::unordered_map<std::string, sqlite3_stmt*, TextHash, std::equal_to<>> statements_;
};

// $1, $2 … outside quotes become ?1, ?2 …: SQLite numbers $n by order of appearance, not by n.
std::string number_parameters(std::string_view sql);

}  // namespace waybill::store
