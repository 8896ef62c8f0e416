#include "daemon/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <utility>

#include "text/utf8.h"

namespace waybill::daemon {
namespace {

constexpr std::size_t kFileBytesMax = 4 * 1024 * 1024;
constexpr std::size_t kOlderFiles = 2;

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char byte : text::decode_lossy(text)) {
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += byte;
    } else if (static_cast<unsigned char>(byte) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(byte));
      out += escaped;
    } else {
      out += byte;
    }
  }
  return out + "\"";
}

struct Log::Impl {
  std::shared_ptr<spdlog::logger> logger;
};

Log::Log(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Log::~Log() = default;

Result<std::unique_ptr<Log>> Log::open(const std::string& directory, bool to_stderr) {
  try {
    auto impl = std::make_unique<Impl>();
    impl->logger = std::make_shared<spdlog::logger>("daemon");
    auto file = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(directory + "/daemon.log",
                                                                       kFileBytesMax, kOlderFiles);
    file->set_formatter(std::make_unique<spdlog::pattern_formatter>(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":%v})",
        spdlog::pattern_time_type::utc));
    impl->logger->sinks().push_back(std::move(file));
    if (to_stderr) {
      auto terminal = std::make_shared<spdlog::sinks::stderr_sink_mt>();
      terminal->set_formatter(std::make_unique<spdlog::pattern_formatter>("%T %l %v"));
      impl->logger->sinks().push_back(std::move(terminal));
    }
    impl->logger->set_level(spdlog::level::info);
    impl->logger->flush_on(spdlog::level::info);
    // A log that cannot be written (a full disk) must not be noisy or fatal.
    impl->logger->set_error_handler([](const std::string&) {});
    return std::unique_ptr<Log>(new Log(std::move(impl)));
  } catch (const spdlog::spdlog_ex& error) {
    return fail(ErrorCode::unavailable, std::string("cannot open the log: ") + error.what());
  }
}

void Log::info(std::string_view message) { impl_->logger->info(json_string(message)); }
void Log::warn(std::string_view message) { impl_->logger->warn(json_string(message)); }
void Log::error(std::string_view message) { impl_->logger->error(json_string(message)); }

}  // namespace waybill::daemon
