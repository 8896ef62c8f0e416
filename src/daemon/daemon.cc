#include "daemon/daemon.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <csignal>
#include <optional>

#include "base/clock.h"
#include "base/crash_point.h"
#include "daemon/config.h"
#include "daemon/data_dir.h"
#include "daemon/doctor.h"
#include "daemon/engine_seat.h"
#include "daemon/engine_thread.h"
#include "daemon/host_watch.h"
#include "daemon/input_writes.h"
#include "daemon/log.h"
#include "daemon/log_waits.h"
#include "daemon/logs.h"
#include "daemon/loop.h"
#include "daemon/monitors.h"
#include "daemon/output_watch.h"
#include "daemon/server.h"
#include "daemon/service.h"
#include "daemon/socket.h"
#include "daemon/store_check.h"
#include "daemon/worker.h"
#include "edge/rpc_session.h"
#include "edge/version.h"
#include "engine/engine.h"
#include "engine/queries.h"
#include "store/backup.h"
#include "store/open.h"
#include "supervise/local_channel.h"

namespace waybill::daemon {
namespace {

constexpr std::size_t kReadsMax = 4096;
constexpr std::size_t kBackupsMax = 8;
constexpr Millis kFlushWithin{1000};

Result<std::string> shim_beside_us() {
  std::string path(PATH_MAX, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) {
    return fail(ErrorCode::unavailable, "cannot find this program's own path; is /proc mounted?");
  }
  path.resize(static_cast<std::size_t>(length));
  return path.substr(0, path.rfind('/')) + "/waybill-shim";
}

Result<void> check_store_url(const std::string& url) {
  if (url.empty() || url == "sqlite" || url == "sqlite:") return {};
  return fail(ErrorCode::bad_request,
              "store: this build keeps its store in SQLite, in the data "
              "directory; leave --store out or give \"sqlite\"");
}

class RpcProtocol final : public Protocol {
 public:
  RpcProtocol(ConnectionNumber number, edge::Service& service, Send send)
      : session_(number, service, std::move(send)) {}

  bool received(std::string_view bytes) override {
    session_.on_bytes(bytes);
    return !session_.wants_close();
  }

 private:
  edge::RpcSession session_;
};

}  // namespace

// Members in the order of construction; the destructor undoes them in reverse.
struct Daemon::Impl {
  DataDir dir;
  DataDirLock lock;
  std::unique_ptr<Log> log;
  Settings settings;
  SystemClock clock;
  Loop loop;
  std::unique_ptr<HostWatch> hosts;
  std::unique_ptr<EngineThread> engine;
  std::unique_ptr<supervise::Channel> channel;
  std::unique_ptr<store::SqliteDatabase> reader_database;
  std::unique_ptr<StoreCheck> check;
  std::optional<engine::Queries> queries;
  std::unique_ptr<Worker> reader;
  std::unique_ptr<Worker> copier;
  std::unique_ptr<OutputWatch> watch;
  std::unique_ptr<LogWaits> logs;
  std::unique_ptr<Monitors> monitors;
  std::unique_ptr<InputWrites> writes;
  std::unique_ptr<DaemonService> service;
  std::optional<Listener> listener;
  std::unique_ptr<Server> server;
  std::string shim_path;
  std::uint64_t files_max = 0;
  bool ending = false;

  Result<void> open(const DaemonOptions& options);
  Result<void> start_engine();
  Result<void> start_reader();
  Result<void> listen();
  Result<edge::BackupReply> back_up(const std::string& path) const;
  void end(const std::string& why);
  engine::StatusReply basic_status() const;
};

Daemon::Daemon() : impl_(std::make_unique<Impl>()) {}

Daemon::~Daemon() {
  if (impl_->engine) impl_->engine->stop();
}

Result<void> Daemon::open(const DaemonOptions& options) { return impl_->open(options); }

std::string Daemon::socket_path() const { return impl_->dir.path + "/" + kSocketName; }

Result<void> Daemon::Impl::open(const DaemonOptions& options) {
  TRY(check_store_url(options.store_url));
  TRY_ASSIGN(dir, open_data_dir(options.data_dir));
  TRY_ASSIGN(lock, lock_data_dir(dir));
  crash_point("start.after_lock");
  if (::chdir("/") != 0) return fail(ErrorCode::unavailable, "cannot enter /");
  TRY_ASSIGN(settings, load_settings(dir.path, options.settings));
  shim_path = options.shim_path;
  files_max = options.files_max;
  if (shim_path.empty()) {
    TRY_ASSIGN(shim_path, shim_beside_us());
  }
  TRY_ASSIGN(log, Log::open(dir.path, options.log_to_stderr));
  log->info("waybill " + std::string(edge::kVersion) + " starts, process " +
            std::to_string(::getpid()) + ", data directory " + dir.path);
  auto started = start_engine();
  if (started) started = start_reader();
  if (started) started = listen();
  if (!started) {
    log->error("not served: " + std::string(to_word(started.error().code)) + ": " +
               started.error().message);
    engine->stop();
    return started;
  }
  loop.signals({SIGTERM, SIGINT, SIGHUP},
               [this](int number) { end("signal " + std::to_string(number)); });
  log->info("accepts on " + dir.path + "/" + kSocketName);
  return {};
}

Result<void> Daemon::Impl::start_engine() {
  hosts = std::make_unique<HostWatch>(
      loop, [this](engine::HostGone gone) { engine->tell(std::move(gone)); },
      [this](const std::string& text) { log->warn(text); });
  engine = std::make_unique<EngineThread>(EngineThread::Hooks{
      [this](const std::string& reason) {
        log->error("poisoned: " + reason + "; mutations are refused until a restart");
      },
      [this](const JobId& job) {
        loop.post([this, job] {
          if (watch) watch->job_changed(job);
        });
      },
      [this] {
        loop.post([this] {
          if (watch) watch->any_changed();
        });
      }});
  supervise::LocalChannelOptions local;
  local.data_dir = dir.path;
  local.shim_path = shim_path;
  local.files_max = files_max;
  local.cgroup_root = settings.cgroup_root;
  local.report = [this](core::JobFacts facts) {
    engine::prepare(facts, settings);
    engine->report(std::move(facts));
  };
  local.warn = [this](const std::string& text) { log->warn(text); };
  TRY_ASSIGN(channel, supervise::LocalChannel::open(std::move(local)));
  return engine->start([this] {
    return open_engine_seat(
        {dir.path, *channel, clock, settings,
         [this](const core::Owner& owner, int pid, std::uint64_t start) {
           loop.post([this, host = engine::HostGone{owner, pid, start}] { hosts->watch(host); });
         },
         [this](const JobId& job, std::vector<core::Monitor> wanted) {
           loop.post([this, job, wanted = std::move(wanted)] {
             if (monitors) monitors->set(job, wanted);
           });
         },
         [this](const std::string& text) { log->warn(text); }});
  });
}

Result<void> Daemon::Impl::start_reader() {
  TRY_ASSIGN(reader_database, store::open_reader(store_path(dir.path)));
  const auto damaged = [this](const std::string& what) {
    engine->tell(engine::StoreDamaged{what});
  };
  reader_database->on_damage(damaged);
  if (!store::is_checked_at_start(store_path(dir.path))) {
    check = std::make_unique<StoreCheck>(store_path(dir.path), damaged,
                                         [this](const std::string& text) { log->warn(text); });
  }
  queries.emplace(*reader_database, settings);
  reader = std::make_unique<Worker>(kReadsMax, [this](const std::string& what) {
    engine->poison("a read met something that cannot happen: " + what);
  });
  copier = std::make_unique<Worker>(kBackupsMax, [this](const std::string& what) {
    log->error("a backup met something that cannot happen: " + what);
  });
  TRY_ASSIGN(watch, OutputWatch::open(loop, dir.path + "/jobs"));
  logs = std::make_unique<LogWaits>(
      loop, *reader, *watch,
      [this](const edge::LogsRequest& request) { return read_logs(*queries, dir.path, request); });
  monitors = std::make_unique<Monitors>(
      loop, *watch, dir.path + "/jobs",
      Monitors::Hooks{
          [this](core::MonitorFound found) { engine->tell(engine::MonitorTold{std::move(found)}); },
          [this](const std::string& text) { log->warn(text); }});
  writes = std::make_unique<InputWrites>(loop, *reader, *watch, dir.path,
                                         write_some_of(*queries, dir.path));
  return {};
}

Result<void> Daemon::Impl::listen() {
  ServerLimits limits;
  struct rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    limits.connections_max = connections_max_of(files.rlim_cur, limits.connections_max);
  }
  service = std::make_unique<DaemonService>(DaemonService::Parts{
      loop, *engine, *reader, *queries, *logs, *writes, settings,
      [this] {
        return examine(*reader_database, {dir.path, store_path(dir.path), shim_path, settings});
      },
      [this] { end("a shutdown call"); }, *copier,
      [this](const std::string& path) { return back_up(path); }, basic_status()});
  TRY_ASSIGN(Listener opened, Listener::open(dir));
  listener.emplace(std::move(opened));
  crash_point("start.after_socket");
  server = std::make_unique<Server>(
      loop, listener->fd(), limits,
      ServerHooks{[this] { return service->new_connection(); },
                  [this](ConnectionNumber number, Send send) -> std::unique_ptr<Protocol> {
                    return std::make_unique<RpcProtocol>(number, *service, std::move(send));
                  },
                  [](ConnectionNumber) {}, [this](const std::string& text) { log->warn(text); }});
  server->start();
  return {};
}

// On the copier's thread.
Result<edge::BackupReply> Daemon::Impl::back_up(const std::string& path) const {
  TRY_ASSIGN(const store::BackupMade made,
             store::make_backup({store_path(dir.path), seal_key_path(dir.path), path}, clock));
  log->info("backup of receipt " + std::to_string(made.newest_receipt) + " in " + path);
  return edge::BackupReply{path, made.bytes, made.newest_receipt};
}

engine::StatusReply Daemon::Impl::basic_status() const {
  engine::StatusReply status;
  status.version = std::string(edge::kVersion);
  status.data_dir = dir.path;
  status.store = "sqlite";
  status.pid = ::getpid();
  status.started_at = clock.wall();
  status.settings = settings;
  return status;
}

// No new callers; what waits is answered; then the loop ends. Jobs and supervisors run on.
void Daemon::Impl::end(const std::string& why) {
  if (ending) return;
  ending = true;
  log->info("ends: " + why + "; jobs run on");
  engine->stop();
  check.reset();
  reader->stop();
  copier->stop();
  monitors->stop();
  // After the answers that both threads have posted to the loop.
  loop.post([this] {
    writes->finish();
    server->finish(kFlushWithin, [this] { loop.stop(); });
  });
}

void Daemon::run() {
  Impl& daemon = *impl_;
  daemon.loop.run([&daemon](const std::string& what) {
    daemon.engine->poison("the I/O thread met something that cannot happen: " + what);
  });
  daemon.listener.reset();
  daemon.log->info("ended");
}

}  // namespace waybill::daemon
