// What hosts and people do.

#include <algorithm>

#include "simulation.h"

namespace waybill::sim {

Millis Simulation::patience() {
  if (random_.chance(30)) return Millis(random_.between(100, 1'000));
  return Millis(random_.between(1'000, 90'000));
}

engine::Caller Simulation::caller(const Client& client) const {
  return {client.owner, client.key, client.connection};
}

Client& Simulation::client(const core::Owner& owner, const std::optional<HostKey>& key) {
  std::vector<engine::ConnectionId> fit;
  for (const auto& [connection, client] : clients_) {
    if (client.owner == owner && client.key == key && !client.dying) fit.push_back(connection);
  }
  if (!fit.empty() && (fit.size() > 3 || random_.chance(75))) return clients_[random_.pick(fit)];
  Client& made = clients_[next_connection_];
  made.connection = next_connection_++;
  made.owner = owner;
  made.key = key;
  return made;
}

void Simulation::post(Client* client, engine::Command command, const std::string& name,
                      std::optional<Millis> timeout) {
  // One that sends a second call before it has read the first answer gives that up.
  const bool again =
      client != nullptr && std::any_of(batch_.begin(), batch_.end(), [&](const auto& other) {
        return other->connection == client->connection;
      });
  const int life = lives_;
  if (again) send();
  if (!daemon_ || life != lives_) return;  // and with it the connection
  auto call = std::make_shared<Call>();
  call->command = std::move(command);
  call->name = name;
  if (client != nullptr) {
    call->connection = client->connection;
    call->owner = client->owner;
    call->key = client->key;
    note(name_of(client->owner) + " " + (client->key ? client->key->str() : "nobody") + " " +
         std::to_string(client->connection) + ": " + name);
  }
  call->timeout = timeout;
  batch_.push_back(std::move(call));
  if (calm_ || !features_.batches || batch_.size() > 3 || random_.chance(60)) send();
}

void Simulation::close(engine::ConnectionId connection) {
  note("connection closes: " + std::to_string(connection));
  branches_.reach(Branch::connection_lost);
  clients_.erase(connection);
  std::erase_if(waiting_, [&](const auto& call) { return call->connection == connection; });
  post(nullptr, engine::ConnectionClosed{connection}, "closed");
}

// All programs of a session end, and its lease runs out.
void Simulation::everybody_leaves(const core::Owner& owner) {
  branches_.reach(Branch::everybody_left);
  note("everybody leaves " + name_of(owner));
  const int life = lives_;
  std::vector<engine::ConnectionId> open;
  for (const auto& [connection, client] : clients_) {
    if (client.owner == owner) open.push_back(connection);
  }
  for (const engine::ConnectionId connection : open) {
    if (!daemon_ || life != lives_) return;
    close(connection);
  }
  for (const HostProcess& host : hosts_) {
    if (host.owner == owner) gone_.push_back({owner, host.pid, 7});
  }
  std::erase_if(hosts_, [&](const HostProcess& host) { return host.owner == owner; });
  send();
  clock_.pass(random_.chance(50) ? settings_.turn_lease : settings_.turn_abandon_after);
  tick();
}

void Simulation::step_connection() {
  if (clients_.empty()) return;
  if (random_.chance(20)) return everybody_leaves(owners_[random_.below(owners_.size())]);
  std::vector<engine::ConnectionId> dying;
  for (const auto& [connection, client] : clients_) {
    if (client.dying) dying.push_back(connection);
  }
  if (!dying.empty() && random_.chance(70)) return close(random_.pick(dying));
  auto at = clients_.begin();
  std::advance(at, random_.below(clients_.size()));
  close(at->first);
}

std::optional<TurnId> Simulation::turn_of(const core::Owner& owner) {
  const auto found = rows("SELECT turn FROM turn WHERE tenant = '" + owner.tenant.str() +
                          "' AND session = '" + owner.session.str() + "' AND state <> 'closed'");
  if (found.empty()) return std::nullopt;
  return TurnId(found.front());
}

void Simulation::step_host() {
  const core::Owner& owner = owners_[random_.below(owners_.size())];
  if (core::is_user_session(owner)) return step_person();
  const bool second = features_.fights && random_.chance(15);
  act(client(owner, HostKey(second ? "k2" : "k1")));
}

void Simulation::step_person() {
  const core::Owner& owner = owners_[random_.below(owners_.size())];
  if (!features_.people && !core::is_user_session(owner)) return step_machine();
  Client& person = client(owner, std::nullopt);
  if (core::is_user_session(owner) && random_.chance(50)) {
    if (!person.held.empty() && random_.chance(60)) return act_held(person);
    return random_.chance(60) ? act_inbox(person) : acknowledge(person);
  }
  act_jobs(person);
}

void Simulation::act(Client& client) {
  const std::uint64_t dice = random_.below(100);
  if (dice < 8) return attach(client);
  if (features_.clients && dice < 16) return act_session(client);
  if (!client.held.empty() && dice < 30) return act_held(client);
  if (dice < 48) return act_jobs(client);
  if (dice < 72) return act_turn(client);
  if (dice < 86) return act_inbox(client);
  if (dice < 91) return acknowledge(client);
  act_session(client);
}

void Simulation::attach(Client& client) {
  engine::AttachRequest request;
  request.caller = caller(client);
  request.join = random_.chance(25);
  if (random_.chance(20)) {
    request.host_pid = next_pid_++;
    request.host_pid_start = 7;
    // It may have ended before anybody could watch it.
    if (random_.chance(80)) hosts_.push_back({client.owner, *request.host_pid});
  }
  if (random_.chance(20)) request.lease = Millis(random_.between(1'000, 100'000));
  request.one_shot = random_.chance(5);
  if (features_.clients && random_.chance(60)) {
    request.client = "claude";
    if (random_.chance(60)) {
      request.resume = engine::ResumeCommand{
          {"claude", "--resume", client.owner.session.str()}, "/", {"PATH=/bin"}};
    }
  }
  if (random_.chance(10)) request.rules = core::Rules{{}, {"rm *"}};
  post(&client, request, request.join ? "join" : "attach");
}

// The start of a closed client has come to something: it attaches and begins a turn.
void Simulation::client_comes_back(const std::string& job) {
  const auto found =
      rows("SELECT tenant || '/' || session FROM session_client WHERE wake_job = '" + job + "'");
  if (found.empty()) return;
  for (const core::Owner& owner : owners_) {
    if (name_of(owner) != found.front()) continue;
    branches_.reach(Branch::client_came_back);
    Client& back = client(owner, HostKey("k" + std::to_string(3 + next_key_++ % 3)));
    engine::AttachRequest request;
    request.caller = caller(back);
    request.client = "claude";
    post(&back, request, "attach, started again");
    if (!daemon_) return;
    engine::TurnRequest begin;
    begin.caller = caller(back);
    begin.turn = TurnId("t" + std::to_string(next_turn_++));
    begin.author = core::Author::host;
    begin.adapter = true;
    begin.supersede = true;
    post(&back, begin, "turn begin, started again");
    return;
  }
}

void Simulation::act_turn(Client& client) {
  engine::TurnRequest request;
  request.caller = caller(client);
  const std::optional<TurnId> open = turn_of(client.owner);
  const bool fresh = !open || random_.chance(10);
  request.turn = fresh ? TurnId("t" + std::to_string(next_turn_)) : *open;
  if (fresh) ++next_turn_;
  request.adapter = features_.clients && random_.chance(40);
  request.timeout = patience();
  if (fresh) {
    request.verb = core::TurnVerb::begin;
    request.supersede = random_.chance(30);
    request.author = random_.chance(50) ? core::Author::user : core::Author::host;
  } else {
    constexpr core::TurnVerb kVerbs[] = {
        core::TurnVerb::step, core::TurnVerb::step,   core::TurnVerb::end,
        core::TurnVerb::end,  core::TurnVerb::end,    core::TurnVerb::begin,
        core::TurnVerb::stop, core::TurnVerb::resume, core::TurnVerb::abandon};
    request.verb = kVerbs[random_.below(std::size(kVerbs))];
    request.author = core::Author::host;
    request.over = random_.chance(10);
    const bool may_wait =
        request.verb == core::TurnVerb::end || request.verb == core::TurnVerb::stop;
    request.wait = may_wait && random_.chance(50);
  }
  std::optional<Millis> timeout;
  if (request.wait) timeout = request.timeout;
  post(&client, request,
       "turn " + std::string(core::to_word(request.verb)) + " " + request.turn.str(), timeout);
}

void Simulation::act_inbox(Client& client) {
  engine::InboxRequest request;
  request.caller = caller(client);
  switch (random_.below(5)) {
    case 0:
      request.no_ack = true;
      break;
    case 1:
      request.tool = true;
      break;
    case 2:
      request.follow = true;
      break;
    default:
      break;
  }
  if (random_.chance(50)) request.timeout = patience();
  post(&client, request, "inbox", request.timeout);
}

// What was handed over is printed, given back, or forgotten.
void Simulation::act_held(Client& client) {
  const std::size_t at = random_.below(client.held.size());
  const DeliveryId delivery = client.held[at];
  client.held.erase(client.held.begin() + static_cast<std::ptrdiff_t>(at));
  if (random_.chance(12)) {
    engine::ReturnedRequest request{caller(client), delivery};
    return post(&client, request, "gives back");
  }
  if (random_.chance(8)) return;
  engine::FlushedRequest request{caller(client), delivery, random_.chance(8)};
  post(&client, request, "has printed");
}

void Simulation::launch(Client& client) {
  engine::RunRequest request;
  request.caller = caller(client);
  request.shell = "/bin/bash";
  request.cwd = "/";
  request.command = random_.chance(5) ? "rm -rf x" : "make " + std::to_string(random_.below(6));
  request.env = {"PATH=/bin", "WAYBILL_HOST_KEY=k1"};
  if (random_.chance(50)) request.turn = turn_of(client.owner);
  if (features_.turns && random_.chance(50)) request.owner = core::OwnerKind::turn;
  constexpr core::WakePolicy kWakes[] = {core::WakePolicy::always, core::WakePolicy::always,
                                         core::WakePolicy::on_failure, core::WakePolicy::never};
  request.wake = kWakes[random_.below(std::size(kWakes))];
  if (random_.chance(15)) request.start_within = patience();
  if (features_.keep && random_.chance(50)) request.leftovers = core::LeftoverPolicy::keep;
  if (features_.monitors && random_.chance(30)) {
    core::Monitor monitor;
    monitor.number = 1;
    monitor.events_max = 3;
    monitor.wakes = random_.chance(50);
    request.monitors.push_back(monitor);
  }
  if (random_.chance(20)) {
    request.key = IdempotencyKey("i" + std::to_string(random_.below(4)));
  }
  post(&client, request, "run " + request.command);
}

void Simulation::act_jobs(Client& client) {
  if (random_.chance(55)) return launch(client);
  ask_about(client, random_.chance(30));
}

void Simulation::ask_about(Client& client, bool stop) {
  const auto kept = rows("SELECT job FROM leftover WHERE kept = 1 AND survived <> '[]'");
  if (stop && !kept.empty() && random_.chance(50)) {
    const auto of = accepted_.find(JobId(random_.pick(kept)));
    if (of != accepted_.end() && of->second == client.owner) {
      engine::StopRequest request;
      request.caller = caller(client);
      request.jobs = {of->first};
      return post(&client, request, "stop of what was left behind");
    }
  }
  const bool others = random_.chance(8);
  const core::Owner& of = others ? owners_[random_.below(owners_.size())] : client.owner;
  const std::vector<JobId>& known = jobs_[of];
  if (known.empty()) return launch(client);
  std::vector<JobId> ids{random_.pick(known)};
  if (random_.chance(30)) ids.push_back(random_.pick(known));
  const Millis timeout = patience();
  if (stop) {
    engine::StopRequest request;
    request.caller = caller(client);
    request.jobs = ids;
    request.all = random_.chance(8);
    if (request.all) request.jobs.clear();
    request.reason = "not wanted";
    request.wait = random_.chance(40);
    request.timeout = timeout;
    std::optional<Millis> limit;
    if (request.wait) limit = timeout;
    return post(&client, request, "stop", limit);
  }
  if (random_.chance(50)) {
    return post(&client, engine::ShowRequest{caller(client), ids.front()}, "show");
  }
  engine::WaitRequest request;
  request.caller = caller(client);
  request.jobs = ids;
  request.any = random_.chance(50);
  request.timeout = timeout;
  post(&client, request, "wait", timeout);
}

void Simulation::acknowledge(Client& client) {
  engine::AckRequest request;
  request.caller = caller(client);
  const std::vector<std::string>& heard = heard_[client.owner];
  if (random_.chance(30)) {
    for (const auto& [delivery, what] : deliveries_) {
      if (what.owner == client.owner && what.seen && random_.chance(30))
        request.ids = {delivery.str()};
    }
  } else if (random_.chance(5)) {
    for (const auto& [owner, events] : heard_) {
      if (owner != client.owner && !events.empty()) request.ids = {events.front()};
    }
  }
  if (request.ids.empty() && !heard.empty()) request.ids = {random_.pick(heard)};
  if (request.ids.empty()) return act_inbox(client);
  post(&client, request, "ack " + request.ids.front());
}

void Simulation::act_session(Client& client) {
  switch (random_.below(features_.clients ? 8 : 4)) {
    case 0: {
      engine::SessionWaitRequest request{caller(client), revisions_[client.owner], patience()};
      return post(&client, request, "session wait", request.timeout);
    }
    case 1:
      return post(&client, engine::SessionShowRequest{caller(client)}, "session show");
    case 2:
      return post(&client, engine::StatusRequest{caller(client)}, "status");
    case 3:
      return post(&client, engine::DetachRequest{caller(client)}, "detach");
    case 4: {
      engine::CallRequest request;
      request.caller = caller(client);
      request.call = "c" + std::to_string(next_call_++);
      request.turn = turn_of(client.owner);
      request.by_user = random_.chance(20);
      return post(&client, request, request.by_user ? "announces, by a user" : "announces");
    }
    case 5: {
      engine::HostRequest request{caller(client), "c" + std::to_string(next_call_ - 1)};
      return post(&client, request, "whose call");
    }
    default: {
      engine::WakeRequest request{caller(client), patience()};
      return post(&client, request, "wake", request.timeout);
    }
  }
}

}  // namespace waybill::sim
