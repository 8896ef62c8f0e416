#include "e2e/journey.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace waybill::e2e {

namespace json = boost::json;

namespace {

constexpr int kRoundsMax = 8;

Daemon::Options daemon_options(const Journey::Options& options) {
  Daemon::Options made;
  for (const std::string& setting : options.settings) {
    made.arguments.insert(made.arguments.end(), {"--set", setting});
  }
  return made;
}

json::string_view view_of(const std::string& text) { return {text.data(), text.size()}; }

// One call on a connection that may break; none when it does.
std::optional<json::value> ask(RawClient& client, const std::string& method,
                               const json::object& params) {
  const json::object request{
      {"jsonrpc", "2.0"}, {"id", 1}, {"method", view_of(method)}, {"params", params}};
  client.send(json::serialize(request) + "\n");
  const auto answer = client.line();
  if (!answer) return std::nullopt;
  return json::parse(*answer);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

Journey::Journey(Options options)
    : options_(std::move(options)),
      daemon_(daemon_options(options_)),
      bell_(path("bell")),
      gate_(path("gate")) {
  daemon_.act_as_host("host");
  daemon_.set_successors(options_.envs);
  if (options_.lose_supervisors) daemon_.on_death([this] { kill_supervisors(); });
  daemon_.revive();
}

// Also one that is just made, and its child at the gate: both are the supervisor's program.
void Journey::kill_supervisors() {
  for (const pid_t pid : processes_with(daemon_.data_dir())) {
    if (read_file("/proc/" + std::to_string(pid) + "/comm") != "waybill-shim\n") continue;
    if (::kill(pid, SIGKILL) != 0) continue;
    EXPECT_TRUE(await_end(pid));
    ++supervisors_lost_;
  }
}

bool Journey::supervisor_killed() const {
  return contains(daemon_.log(), "was killed by signal 9.") ||
         contains(daemon_.log(), "is gone; the daemon completes its records.");
}

// ---- calls -------------------------------------------------------------------------------------

json::value Journey::call(std::vector<std::string> arguments, int exit_code) {
  arguments.insert(arguments.begin(), "--json");
  const Output output = daemon_.cli_through_crashes(arguments);
  EXPECT_EQ(output.exit_code, exit_code) << arguments[1] << ": " << output.describe();
  return output.json();
}

json::object Journey::with_caller(json::object params, bool host) const {
  params["session"] = "host";
  if (host) params["host_key"] = "key";
  return params;
}

json::value Journey::rpc(const std::string& method, json::object params, bool host) {
  params = with_caller(std::move(params), host);
  for (int rounds = 0; rounds < kRoundsMax; ++rounds) {
    daemon_.revive();
    client_ = std::make_unique<RawClient>(daemon_.socket());
    std::optional<json::value> answer;
    if (client_->connected() && ask(*client_, "hello", {{"protocol", 1}})) {
      answer = ask(*client_, method, params);
    }
    if (!answer) {
      daemon_.wait_for_end();  // it is just dying
      continue;
    }
    if (answer->as_object().contains("result")) return answer->at("result");
    return nullptr;
  }
  ADD_FAILURE() << "no answer to " << method;
  return nullptr;
}

void Journey::stuck(const std::string& method) {
  ADD_FAILURE() << "what " << method << " tells does not become what was waited for";
}

// ---- steps -------------------------------------------------------------------------------------

void Journey::attach(const std::vector<std::string>& flags) {
  std::vector<std::string> words{"session", "attach"};
  words.insert(words.end(), flags.begin(), flags.end());
  call(words);
}

void Journey::begin(const std::string& turn) {
  for (const json::value& message : items_at(call({"turn", "begin", "--turn", turn}), "messages")) {
    hear(message);
  }
}

std::string Journey::run(const std::string& owner, const std::string& rest,
                         const std::vector<std::string>& flags, const Wanted& wanted) {
  const std::string command = "echo $WAYBILL_JOB >> '" + path("runs") + "'; " + rest;
  std::vector<std::string> words{"run", "--owner", owner};
  if (std::ranges::find(flags, "--grace") == flags.end()) {
    words.insert(words.end(), {"--grace", "200ms"});
  }
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {"--", command});
  jobs_.push_back(text_at(call(words), "job.id"));
  wanted_.emplace(job_id(), wanted);
  return job_id();
}

void Journey::end_turn(const std::string& turn) {
  for (int rounds = 0; rounds < kRoundsMax; ++rounds) {
    const json::value answer = call({"turn", "end", "--turn", turn, "--wait", "--timeout", "60s"});
    for (const json::value& message : items_at(answer, "messages")) hear(message);
    const std::string state = text_at(answer, "state");
    if (state == "closed") return;
    ASSERT_EQ(state, "open") << json::serialize(answer);
  }
  ADD_FAILURE() << "the turn does not close";
}

void Journey::take_inbox(const std::string& event, Since since) {
  const std::size_t before = since == Since::now ? sights_.size() : 0;
  const auto is_heard = [&] {
    return std::any_of(sights_.begin() + static_cast<std::ptrdiff_t>(before), sights_.end(),
                       [&](const audit::Sight& sight) { return sight.event.starts_with(event); });
  };
  for (int rounds = 0; rounds < kRoundsMax && !is_heard(); ++rounds) {
    const Output output = daemon_.cli_through_crashes({"--json", "inbox", "--timeout", "60s"});
    ASSERT_EQ(output.exit_code, 0) << output.describe();
    if (!output.out.empty()) hear(output.json());
  }
  EXPECT_TRUE(is_heard()) << event;
}

void Journey::acknowledge() {
  for (const std::string& event : heard_) {
    call({"ack", event});
    sights_.push_back({audit::Sight::What::acknowledged, event, "host", false});
  }
}

void Journey::hear(const json::value& hand_over) {
  for (const json::value& event : items_at(hand_over, "events")) {
    const std::string id = text_at(event, "id");
    heard_.insert(id);
    sights_.push_back({audit::Sight::What::handed_over, id, "host", at(event, "repeat").as_bool()});
  }
}

void Journey::stop(bool wait) {
  std::vector<std::string> words{"stop", job_id(), "--reason", "test"};
  if (wait) words.insert(words.end(), {"--wait", "--timeout", "60s"});
  call(words);
}

void Journey::wait_for_job() {
  const Output output =
      daemon_.cli_through_crashes({"--json", "wait", job_id(), "--timeout", "60s"});
  EXPECT_NE(output.exit_code, 124) << output.describe();
}

void Journey::show_job() { call({"show", job_id()}); }

void Journey::write(const std::string& text) {
  Launch launch = daemon_.command({"write", job_id()});
  launch.input = text;
  const Output output = e2e::run(std::move(launch));
  // In doubt when the daemon died: taken or not, once or never.
  if (output.exit_code == 0) written_ = text;
}

void Journey::close_input() {
  settle();  // the write may have killed the daemon
  daemon_.cli({"write", job_id(), "--close"});
}

std::string Journey::take_and_hold() {
  const json::value answer = rpc("inbox.take", {{"timeout_ms", 60000}});
  const json::value hand_over = at(answer, "hand_over");
  if (hand_over.is_null()) return {};
  hear(hand_over);
  return text_at(hand_over, "delivery");
}

void Journey::pruned(By by) {
  const std::string id = job_id();
  const auto end = std::chrono::steady_clock::now() + kCap;
  for (;;) {
    if (by == By::operator_) call({"prune", "--older-than", "0s"});
    if (rpc("job.show", {{"job", id}}, false).is_null()) break;
    if (std::chrono::steady_clock::now() > end) return stuck("prune");
  }
  EXPECT_EQ(daemon_.cli_through_crashes({"show", id}).exit_code, 121);
  EXPECT_FALSE(std::filesystem::exists(daemon_.data_dir() + "/jobs/" + id));
  EXPECT_EQ(read_file(path("runs")), id + "\n") << "I10";
  const auto of_it = [&](const audit::Sight& sight) { return sight.event.starts_with(id); };
  EXPECT_TRUE(std::ranges::any_of(sights_, of_it)) << "I2";
  std::erase_if(sights_, of_it);
  jobs_.pop_back();
}

// ---- the audit ---------------------------------------------------------------------------------

namespace {

audit::Receipt receipt_of(const json::value& row) {
  audit::Receipt receipt;
  receipt.seq = static_cast<std::uint64_t>(number_at(row, "seq"));
  receipt.node_seq = static_cast<std::uint64_t>(number_at(row, "node_seq"));
  receipt.attempt = static_cast<std::uint64_t>(number_at(row, "attempt"));
  receipt.activation = static_cast<std::uint64_t>(number_at(row, "activation"));
  if (!at(row, "from").is_null()) receipt.from = text_at(row, "from");
  receipt.to = text_at(row, "to");
  receipt.name = text_at(row, "name");
  receipt.cause = text_or_empty_at(row, "cause");
  return receipt;
}

audit::Event event_of(const json::value& row) {
  return {text_at(row, "id"), text_at(row, "type"), text_at(row, "state"),
          text_or_empty_at(row, "acked_as"), text_or_empty_at(row, "withheld")};
}

// A row says that there is output if and only if there is a file.
void audit_output(Daemon& daemon, const json::value& job) {
  const std::string dir = daemon.data_dir() + "/jobs/" + text_at(job, "id");
  const bool expired = !at(job, "output.expired_at").is_null();
  daemon.cli_through_crashes({"status"});  // the look before this one may have ended it
  const Output logs = daemon.cli({"logs", text_at(job, "id"), "--raw"});
  if (expired) {
    EXPECT_FALSE(std::filesystem::exists(dir + "/out"));
    EXPECT_EQ(number_at(job, "output.kept_bytes"), 0);
    EXPECT_NE(logs.exit_code, 0);
    return;
  }
  const bool shortened = !items_at(job, "output.gaps").empty();
  if (logs.exit_code != 0 || shortened) return;
  EXPECT_EQ(logs.out.size(), static_cast<std::size_t>(number_at(job, "output.kept_bytes")));
}

}  // namespace

// What is known of one way alone.
void Journey::audit_job(const json::value& job, int runs) {
  const Wanted& wanted = wanted_.at(text_at(job, "id"));
  const std::string status = text_at(job, "status");
  const std::string kind = text_or_empty_at(job, "exit.kind");
  if (!wanted.runs) {
    EXPECT_EQ(runs, 0);
  }
  audit_output(daemon_, job);
  if (!some_supervisor_lost()) {  // it was there all the time: nothing is unknown
    EXPECT_EQ(runs, wanted.runs ? 1 : 0) << "I10";
    if (!wanted.status.empty()) {
      EXPECT_EQ(status, wanted.status);
    }
    if (wanted.code) {
      EXPECT_EQ(number_at(job, "exit.code"), *wanted.code);
    }
    if (wanted.given_up) {
      EXPECT_EQ(text_at(job, "proof"), "unproven");
      EXPECT_EQ(kind, "unknown");
      EXPECT_EQ(text_at(job, "cause"), "operator");
    } else if (wanted.runs && items_at(job, "leftovers").empty()) {
      EXPECT_EQ(text_at(job, "proof"), "subreaper");
    }
    return;
  }
  // Unknown is allowed, a second run and an invented end are not (I9, I10).
  EXPECT_NE(status, "succeeded");
  if (kind != "exited") {
    EXPECT_TRUE(at(job, "exit.code").is_null());
  } else if (wanted.code) {
    EXPECT_EQ(number_at(job, "exit.code"), *wanted.code);
  }
  if (status == "failed" && kind == "unknown" && !wanted.given_up) {
    EXPECT_EQ(text_at(job, "cause"), "supervisor_lost");
  }
}

void Journey::audit() {
  client_.reset();
  settle();
  const json::value session = at(call({"session", "show"}), "session");
  EXPECT_TRUE(at(session, "turn").is_null()) << json::serialize(session);
  EXPECT_EQ(number_at(session, "undelivered"), 0);
  EXPECT_EQ(number_at(session, "running_jobs"), 0);
  EXPECT_EQ(number_at(session, "queued_jobs"), 0);
  const std::string runs = read_file(path("runs"));
  audit::Ledger ledger;
  ledger.sights = sights_;
  ledger.quiet = true;
  ledger.whole_node = true;
  ledger.hand_overs_known = true;
  for (const std::string& id : jobs_) {
    const json::value job = at(call({"show", id}), "job");
    SCOPED_TRACE(json::serialize(job));
    audit::Job entry;
    entry.id = id;
    entry.owner = "host";
    entry.status = text_at(job, "status");
    entry.proof = text_or_empty_at(job, "proof");
    for (const json::value& row : items_at(job, "receipts")) {
      entry.receipts.push_back(receipt_of(row));
    }
    for (const json::value& row : items_at(job, "events")) entry.events.push_back(event_of(row));
    entry.runs = 0;
    for (std::size_t from = 0; (from = runs.find(id + "\n", from)) != std::string::npos; ++from) {
      ++*entry.runs;
    }
    audit_job(job, *entry.runs);
    if (written_ && !some_supervisor_lost()) {
      settle();
      EXPECT_EQ(daemon_.cli({"logs", id, "--raw"}).out, *written_);
    }
    ledger.jobs.push_back(std::move(entry));
  }
  EXPECT_EQ(audit::describe(audit::audit(ledger)), "");
}

std::string test_name(std::string_view point) {
  std::string name(point);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

}  // namespace waybill::e2e
