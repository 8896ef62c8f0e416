#include "daemon/engine_seat.h"

#include <sys/stat.h>

#include <utility>

#include "edge/version.h"
#include "engine/engine.h"
#include "store/open.h"
#include "store/sealer.h"
#include "supervise/identity.h"

namespace waybill::daemon {
namespace {

constexpr char kStoreName[] = "/waybill.db";
constexpr char kSealKeyName[] = "/seal.key";

class Seat final : public EngineSeat {
 public:
  Seat(store::OpenedStore store, store::Sealer sealer, const SeatParts& parts)
      : store_(std::move(store)),
        sealer_(std::move(sealer)),
        engine_(engine::Parts{*store_.writer, sealer_, parts.channel, parts.clock, parts.data_dir,
                              std::string(edge::kVersion), store_.incarnation, parts.settings,
                              parts.watch_host, parts.monitor, parts.warn,
                              supervise::monotonic_clock_id()}) {}

  Result<void> open() { return engine_.open(); }

  void run_batch(std::vector<engine::Ticket> batch) override {
    engine_.run_batch(std::move(batch));
  }
  void tick() override { engine_.tick(); }
  std::optional<Millis> next_due() const override { return engine_.next_due(); }
  void close() override { engine_.close(); }
  const std::string& poisoned() const override { return engine_.poisoned(); }

 private:
  store::OpenedStore store_;
  store::Sealer sealer_;
  engine::Engine engine_;
};

}  // namespace

std::string store_path(const std::string& data_dir) { return data_dir + kStoreName; }

Result<std::unique_ptr<EngineSeat>> open_engine_seat(const SeatParts& parts) {
  const std::string path = store_path(parts.data_dir);
  struct stat info{};
  // The key is made before the store, so that a store always has its key.
  const bool is_new = ::stat(path.c_str(), &info) != 0;
  TRY_ASSIGN(store::Sealer sealer, store::Sealer::open(parts.data_dir + kSealKeyName, is_new));
  TRY_ASSIGN(store::OpenedStore store, store::open_store(path, parts.clock));
  TRY(store::bind_key(store, sealer));
  auto seat = std::make_unique<Seat>(std::move(store), std::move(sealer), parts);
  TRY(seat->open());
  return std::unique_ptr<EngineSeat>(std::move(seat));
}

}  // namespace waybill::daemon
