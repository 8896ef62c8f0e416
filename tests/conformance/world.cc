#include "world.h"

#include <stdlib.h>

#include <algorithm>

namespace waybill::test {

World::World() {
  std::string pattern = (std::filesystem::temp_directory_path() / "waybill-test-XXXXXX").string();
  dir_ = ::mkdtemp(pattern.data());
  EXPECT_TRUE(start());
}

World::~World() {
  engine_.reset();
  store_.writer.reset();
  std::filesystem::remove_all(dir_);
}

Result<void> World::start() {
  engine_.reset();
  store_.writer.reset();
  TRY_ASSIGN(store_, store::open_store(path(), clock));
  TRY_ASSIGN(store::Sealer sealer, store::Sealer::open((dir_ / "key").string(), store_.created));
  TRY(store::bind_key(store_, sealer));
  sealer_ = std::make_unique<store::Sealer>(std::move(sealer));
  engine::Parts parts{
      *store_.writer,
      *sealer_,
      channel,
      clock,
      dir_.string(),
      "test",
      store_.incarnation,
      node,
      settings,
      [this](const core::Owner& owner, int, std::uint64_t) { watched.push_back(owner); },
      [this](const JobId& job, std::vector<core::Monitor> wanted) {
        monitored[job] = std::move(wanted);
      },
      [this](const std::string& text) { warnings.push_back(text); },
      marks ? store::why_regressed(mark, store_.lineage) : std::string(),
      std::max(store_.lineage.newest, mark ? mark->newest : 0),
      store_.lineage.copy,
      [this](const std::string& incarnation, std::uint64_t newest) {
        mark = store::Mark{incarnation, newest};
      },
      boot};
  engine_ = std::make_unique<engine::Engine>(std::move(parts));
  return engine_->open();
}

void World::save(const std::string& name) {
  ASSERT_TRUE(store_.writer->script("PRAGMA wal_checkpoint(TRUNCATE)"));
  std::filesystem::copy_file(path(), dir_ / name);
}

void World::restore(const std::string& name) {
  close();
  std::filesystem::remove(path() + "-wal");
  std::filesystem::remove(path() + "-shm");
  std::filesystem::copy_file(dir_ / name, path(),
                             std::filesystem::copy_options::overwrite_existing);
}

std::shared_ptr<Outcome> World::post(engine::Command command) {
  auto outcome = std::make_shared<Outcome>();
  std::vector<engine::Ticket> batch;
  batch.push_back({std::move(command), [outcome](Result<engine::Reply> result) {
                     EXPECT_FALSE(outcome->answered) << "answered twice";
                     outcome->answered = true;
                     outcome->result = std::move(result);
                   }});
  engine_->run_batch(std::move(batch));
  return outcome;
}

void World::started(const JobId& job) {
  core::JobFacts facts;
  facts.job = job;
  facts.supervision = core::Supervision::running;
  facts.started_at = clock.wall();
  post(engine::ObservedFacts{std::move(facts)});
}

core::JobFacts World::finished_facts(const JobId& job, int code) {
  core::JobFacts facts;
  facts.job = job;
  facts.supervision = core::Supervision::finished;
  facts.started_at = clock.wall();
  facts.finished_at = clock.wall();
  facts.duration = Millis(5);
  facts.exit = core::Exit::exited(code);
  facts.proof = core::Proof::subreaper;
  facts.output = core::OutputFacts{};
  return facts;
}

void World::ended(const JobId& job, int code, const std::string& tail) {
  core::JobFacts facts = finished_facts(job, code);
  facts.tail = tail;
  ended(std::move(facts));
}

void World::ended(core::JobFacts facts) { post(engine::ObservedFacts{std::move(facts)}); }

engine::Caller host(const std::string& session, const std::string& key,
                    engine::ConnectionId connection) {
  return {{TenantId("local"), SessionId(session)}, HostKey(key), connection};
}

engine::Caller person(const std::string& session, engine::ConnectionId connection) {
  return {{TenantId("local"), SessionId(session)}, std::nullopt, connection};
}

engine::AttachRequest attach(const engine::Caller& caller) {
  engine::AttachRequest request;
  request.caller = caller;
  return request;
}

engine::RunRequest command(const engine::Caller& caller, const std::string& text,
                           const std::string& turn) {
  engine::RunRequest request;
  request.caller = caller;
  request.shell = "/bin/bash";
  request.command = text;
  request.cwd = "/";
  request.env = {"PATH=/usr/bin:/bin"};
  if (!turn.empty()) request.turn = TurnId(turn);
  return request;
}

engine::RunRequest turn_command(const engine::Caller& caller, const std::string& text,
                                const std::string& turn) {
  engine::RunRequest request = command(caller, text, turn);
  request.owner = core::OwnerKind::turn;
  return request;
}

engine::TurnRequest turn(const engine::Caller& caller, core::TurnVerb verb, const std::string& id) {
  engine::TurnRequest request;
  request.caller = caller;
  request.verb = verb;
  request.turn = TurnId(id);
  return request;
}

engine::InboxRequest inbox(const engine::Caller& caller, std::optional<Millis> timeout) {
  engine::InboxRequest request;
  request.caller = caller;
  request.timeout = timeout;
  return request;
}

}  // namespace waybill::test
