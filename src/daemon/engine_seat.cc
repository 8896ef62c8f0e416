#include "daemon/engine_seat.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/crash_point.h"
#include "edge/version.h"
#include "engine/engine.h"
#include "store/backup.h"
#include "store/mark.h"
#include "store/open.h"
#include "store/sealer.h"
#include "supervise/found_job.h"
#include "supervise/identity.h"

namespace waybill::daemon {
namespace {

constexpr char kStoreName[] = "/waybill.db";
constexpr char kSealKeyName[] = "/seal.key";

constexpr char kMarkName[] = "/receipt.mark";

// The mark, and what it says of the store.
struct Marked {
  std::optional<store::MarkFile> file;  // none: it cannot be had, and that has been said
  std::string regressed;
  std::uint64_t seen = 0;
};

// In a data directory from before there were marks, and where the store was lost, the launch files
// say what was seen. Once: from then on there is a mark.
Result<Marked> look_at_mark(const SeatParts& parts, store::OpenedStore& opened) {
  Marked marked;
  auto file = store::MarkFile::open(parts.data_dir + kMarkName);
  if (!file) return fail(file.error());
  std::optional<store::Mark> seen = file->found();
  if (!seen && !opened.lineage.marked) {
    TRY_ASSIGN(const std::uint64_t newest, supervise::newest_launched(parts.data_dir));
    if (newest > 0) seen = store::Mark{opened.incarnation, newest};
  }
  marked.regressed = store::why_regressed(seen, opened.lineage);
  marked.seen = std::max(opened.lineage.newest, seen ? seen->newest : 0);
  marked.file = std::move(*file);
  if (!marked.regressed.empty()) return marked;
  auto written = marked.file->write_durably({opened.incarnation, opened.lineage.newest});
  if (written && !opened.lineage.marked) written = store::expect_mark(*opened.writer);
  if (!written) {  // a full disk, say: the store is served, and what it loses is not noticed
    parts.warn(written.error().message);
    if (!opened.lineage.marked) marked.file.reset();
  }
  return marked;
}

class Seat final : public EngineSeat {
 public:
  Seat(store::OpenedStore store, store::Sealer sealer, Marked marked, const SeatParts& parts)
      : store_(std::move(store)),
        sealer_(std::move(sealer)),
        mark_(std::move(marked.file)),
        warn_(parts.warn),
        engine_(engine::Parts{*store_.writer, sealer_, parts.channel, parts.clock, parts.data_dir,
                              std::string(edge::kVersion), store_.incarnation,
                              supervise::read_node(parts.data_dir), parts.settings,
                              parts.watch_host, parts.monitor, parts.warn,
                              std::move(marked.regressed), marked.seen, store_.lineage.copy,
                              [this](const std::string& incarnation, std::uint64_t newest) {
                                write_mark({incarnation, newest});
                              },
                              supervise::monotonic_clock_id()}) {}

  Result<void> open() { return engine_.open(); }

  void run_batch(std::vector<engine::Ticket> batch) override {
    engine_.run_batch(std::move(batch));
  }
  void tick() override { engine_.tick(); }
  std::optional<Millis> next_due() const override { return engine_.next_due(); }
  void close() override { engine_.close(); }
  const std::string& poisoned() const override { return engine_.poisoned(); }
  std::string regressed() const override { return engine_.regressed(); }

 private:
  // A mark that lags refuses less than it could, and nothing that it should not.
  void write_mark(const store::Mark& mark) {
    if (!mark_) return;
    const auto written = mark_->write(mark);
    if (!written && !std::exchange(mark_failed_, true)) warn_(written.error().message);
    if (written) mark_failed_ = false;
  }

  store::OpenedStore store_;
  store::Sealer sealer_;
  std::optional<store::MarkFile> mark_;
  bool mark_failed_ = false;
  std::function<void(const std::string&)> warn_;
  engine::Engine engine_;
};

// The key is made before the store, so that a store always has its key; a backup brings its own.
Result<store::Sealer> open_key(const std::string& store, const std::string& key) {
  struct stat info{};
  const bool is_new = ::lstat(store.c_str(), &info) != 0;
  const bool has_key = ::lstat(key.c_str(), &info) == 0;
  if (!is_new && !has_key) {
    TRY_ASSIGN(const std::optional<std::string> carried, store::key_of_backup(store));
    if (carried) TRY(store::Sealer::put_back(key, *carried));
  }
  return store::Sealer::open(key, is_new);
}

}  // namespace

std::string store_path(const std::string& data_dir) { return data_dir + kStoreName; }
std::string seal_key_path(const std::string& data_dir) { return data_dir + kSealKeyName; }

Result<std::unique_ptr<EngineSeat>> open_engine_seat(const SeatParts& parts) {
  const std::string path = store_path(parts.data_dir);
  TRY(store::check_store_files(path));
  TRY_ASSIGN(store::Sealer sealer, open_key(path, seal_key_path(parts.data_dir)));
  crash_point("start.after_key");
  TRY_ASSIGN(store::OpenedStore store, store::open_store(path, parts.clock));
  crash_point("start.after_store");
  TRY(store::bind_key(store, sealer));
  if (!store.remark.empty()) parts.warn(store.remark);
  TRY_ASSIGN(Marked marked, look_at_mark(parts, store));
  if (!marked.regressed.empty()) {
    parts.warn("store_regressed: " + marked.regressed +
               "; only reads are served until `waybill "
               "reconcile`");
  }
  auto seat = std::make_unique<Seat>(std::move(store), std::move(sealer), std::move(marked), parts);
  TRY(seat->open());
  return std::unique_ptr<EngineSeat>(std::move(seat));
}

}  // namespace waybill::daemon
