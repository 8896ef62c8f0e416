#include "supervise/local_channel.h"

#include <utility>

#include "supervise/channel_loop.h"
#include "supervise/found_job.h"
#include "supervise/job_dir.h"
#include "supervise/job_look.h"
#include "supervise/remove_job.h"

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
DiskSpace LocalChannel::disk_space() { return supervise::disk_space(loop_->data_dir()); }
std::uint64_t LocalChannel::output_allocated(const JobId& job) {
  return supervise::output_allocated(loop_->data_dir(), job);
}
bool LocalChannel::remove_output(const JobId& job) {
  return supervise::remove_output(loop_->data_dir(), job);
}
std::optional<core::OutputFacts> LocalChannel::shorten_output(const JobId& job, std::uint64_t cap) {
  return supervise::shorten_output(loop_->data_dir(), job, cap);
}
void LocalChannel::lower_output_cap(const JobId& job, std::uint64_t cap) {
  loop_->post_cap(job, cap);
}
std::optional<std::uint64_t> LocalChannel::remove_job(const JobId& job) {
  return supervise::remove_job(loop_->data_dir(), job);
}
std::uint64_t LocalChannel::job_allocated(const JobId& job) {
  return supervise::job_allocated(loop_->data_dir(), job);
}
bool LocalChannel::ended_on_record(const JobId& job) {
  return supervise::ended_on_record(loop_->data_dir(), job);
}
std::optional<core::OutputFacts> LocalChannel::output_of(const JobId& job) {
  if (!is_job_dir_name(job.str()) || output_allocated(job) == 0) return std::nullopt;
  return output_from_files(job_dir_path(loop_->data_dir(), job));
}
Result<std::vector<JobId>> LocalChannel::directories() {
  return job_directories(loop_->data_dir());
}
Result<FoundJob> LocalChannel::find(const JobId& job) {
  return find_job_directory(loop_->data_dir(), job, loop_->machine());
}
GenerationId LocalChannel::generation() const { return generation_id(loop_->machine()); }

}  // namespace waybill::supervise
