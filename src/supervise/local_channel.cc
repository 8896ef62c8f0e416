#include "supervise/local_channel.h"

#include <utility>

#include "supervise/channel_loop.h"

namespace waybill::supervise {

LocalChannel::LocalChannel(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
LocalChannel::~LocalChannel() = default;

Result<std::unique_ptr<LocalChannel>> LocalChannel::open(LocalChannelOptions options) {
  auto loop = std::make_unique<Loop>(std::move(options));
  TRY(loop->start());
  return std::unique_ptr<LocalChannel>(new LocalChannel(std::move(loop)));
}

void LocalChannel::supervise(SuperviseOrder order) { loop_->post(std::move(order)); }
void LocalChannel::forget(const JobId& job) { loop_->post_forget(job); }
GenerationId LocalChannel::generation() const { return generation_id(loop_->machine()); }

}  // namespace waybill::supervise
