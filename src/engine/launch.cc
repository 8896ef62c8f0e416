#include <algorithm>
#include <array>
#include <utility>

#include "engine/clients.h"
#include "engine/jobs.h"
#include "engine/monitors.h"
#include "engine/views.h"
#include "store/random.h"
#include "text/preview.h"

namespace waybill::engine {
namespace {

void put_field(std::string& packed, std::string_view field) {
  packed.append(field);
  packed.push_back('\0');
}

// Takes one NUL-terminated field off the front; nullopt when there is none.
std::optional<std::string> take_field(std::string_view& packed) {
  const std::size_t end = packed.find('\0');
  if (end == std::string_view::npos) return std::nullopt;
  std::string field(packed.substr(0, end));
  packed.remove_prefix(end + 1);
  return field;
}

}  // namespace

// "command\0" count-of-argv "\0" argv… env…: no field can hold a NUL, so nothing needs escaping.
std::string pack_launch(const LaunchSecret& secret) {
  std::string packed;
  put_field(packed, secret.command);
  put_field(packed, std::to_string(secret.argv.size()));
  for (const std::string& arg : secret.argv) put_field(packed, arg);
  for (const std::string& entry : secret.env) put_field(packed, entry);
  return packed;
}

Result<LaunchSecret> unpack_launch(std::string_view packed) {
  LaunchSecret secret;
  const Error corrupt{ErrorCode::state_corrupt, "A launch record does not parse; it was kept."};
  const std::optional<std::string> command = take_field(packed);
  const std::optional<std::string> count = take_field(packed);
  if (!command || !count || count->empty() || count->size() > 7 ||
      !std::ranges::all_of(*count, [](char c) { return c >= '0' && c <= '9'; })) {
    return fail(corrupt);
  }
  secret.command = *command;
  for (int left = std::stoi(*count); left > 0; --left) {
    std::optional<std::string> arg = take_field(packed);
    if (!arg) return fail(corrupt);
    secret.argv.push_back(std::move(*arg));
  }
  while (!packed.empty()) {
    std::optional<std::string> entry = take_field(packed);
    if (!entry) return fail(corrupt);
    secret.env.push_back(std::move(*entry));
  }
  return secret;
}

namespace {

std::string command_text(const RunRequest& request) {
  if (!request.shell.empty()) return request.command;
  std::string text;
  for (const std::string& arg : request.argv) {
    if (!text.empty()) text.push_back(' ');
    text += arg;
  }
  return text;
}

// What makes two launches the same command: not the environment, which a shell changes all the
// time.
std::string fingerprint(Work& work, const RunRequest& request) {
  std::string text;
  put_field(text, request.caller.owner.tenant.str());
  put_field(text, request.caller.owner.session.str());
  put_field(text, core::to_word(request.owner));
  put_field(text, request.shell);
  put_field(text, request.cwd);
  put_field(text, request.command);
  for (const std::string& arg : request.argv) put_field(text, arg);
  for (const std::string& word : request.wrapper) put_field(text, word);
  return work.sealer().fingerprint(text);
}

// Refuses a launch that has no way back to its owner (SPEC section 4).
Result<void> check_delivery_path(Work& work, const RunRequest& request,
                                 const store::SessionRow& session) {
  if (request.owner == core::OwnerKind::turn) {
    if (!request.turn) {
      return fail(ErrorCode::no_delivery_path,
                  "A job owned by a turn needs one: give --turn or use --owner session.");
    }
    TRY_ASSIGN(const std::optional<store::TurnRow> turn,
               store::find_open_turn(work.db(), request.caller.owner));
    if (!turn || turn->id != *request.turn || turn->stopped) {
      return fail(
          ErrorCode::no_delivery_path,
          "Turn " + request.turn->str() +
              " is not open, so it could not hear of the end; begin it or use --owner session.");
    }
    return {};
  }
  if (session.one_shot) {
    return fail(
        ErrorCode::no_delivery_path,
        "This session's host said that it will not return (--one-shot), so the job's end would "
        "be heard by nobody; use --owner turn.");
  }
  return {};
}

Result<void> check_rules(const core::Rules& rules, const RunRequest& request) {
  if (auto why = core::refused_by(rules, command_text(request))) {
    return fail(ErrorCode::forbidden, *why + " Nothing was started.");
  }
  return {};
}

Result<void> check_limits(Work& work, const core::Owner& owner, const store::SessionRow& session) {
  const Settings& settings = work.settings();
  if (session.queued >= settings.queued_per_session) {
    return fail(ErrorCode::limit_reached,
                "The session has " + std::to_string(session.queued) +
                    " queued jobs, the most it may have; wait for some to "
                    "end or stop some.");
  }
  if (core::is_user_session(owner)) return {};
  TRY_ASSIGN(const std::uint64_t undelivered, store::count_live_inbox(work.db(), owner));
  if (undelivered >= settings.undelivered_per_session) {
    return fail(ErrorCode::limit_reached,
                "The session has " + std::to_string(undelivered) +
                    " results that nobody took; take them with `waybill inbox` first.");
  }
  return {};
}

// Never promises more than this host can do: a job of the turn is heard by the turn, which cannot
// close before; a job of the session wakes only a host that is waiting right now.
core::DeliveryPath path_of(const RunRequest& request, bool reachable) {
  if (request.owner == core::OwnerKind::turn) return core::DeliveryPath::this_turn;
  if (reachable && !core::is_user_session(request.caller.owner)) return core::DeliveryPath::wake;
  return core::DeliveryPath::next_attach;
}

store::JobRow new_job(Work& work, const RunRequest& request, std::string print) {
  store::JobRow job;
  job.seq = ++work.sequences().job;
  job.id = JobId(store::random_id("j", work.parts().clock));
  job.scope.owner = request.caller.owner;
  job.scope.turn = request.turn;
  job.scope.sandbox = SandboxId("local");
  job.scope.generation = work.parts().channel.generation();
  job.owner = request.owner;
  job.wake = request.wake;
  job.label = request.label;
  job.command_preview = text::preview(
      command_text(request), static_cast<std::size_t>(work.settings().command_preview_chars));
  job.cwd = request.cwd;
  job.fingerprint = std::move(print);
  job.created_at = work.wall();
  job.monitors = static_cast<std::uint32_t>(request.monitors.size());
  if (request.start_within) job.start_by = job.created_at + *request.start_within;
  return job;
}

// The job's environment: the caller's, without the host's capability, with the job's own names on
// top.
std::vector<std::string> job_environment(const RunRequest& request, const JobId& job) {
  const auto named = [](const std::string& entry, std::string_view name) {
    return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
  };
  std::vector<std::string> env;
  for (const std::string& entry : request.env) {
    if (named(entry, "WAYBILL_HOST_KEY") || named(entry, "WAYBILL_SESSION") ||
        named(entry, "WAYBILL_TURN") || named(entry, "WAYBILL_JOB")) {
      continue;
    }
    env.push_back(entry);
  }
  env.push_back("WAYBILL_SESSION=" + request.caller.owner.session.str());
  if (request.turn) env.push_back("WAYBILL_TURN=" + request.turn->str());
  env.push_back("WAYBILL_JOB=" + job.str());
  return env;
}

// What loaders, shells and interpreters take code from.
constexpr std::array<std::string_view, 20> kChangePrograms{"LD_",
                                                           "GLIBC_TUNABLES=",
                                                           "GCONV_PATH=",
                                                           "BASH_ENV=",
                                                           "BASH_FUNC_",
                                                           "BASHOPTS=",
                                                           "SHELLOPTS=",
                                                           "ENV=",
                                                           "PS4=",
                                                           "ZDOTDIR=",
                                                           "FPATH=",
                                                           "PYTHON",
                                                           "PERL5",
                                                           "PERLLIB=",
                                                           "RUBYOPT=",
                                                           "RUBYLIB=",
                                                           "NODE_OPTIONS=",
                                                           "NODE_PATH=",
                                                           "JAVA_TOOL_OPTIONS=",
                                                           "IFS="};

// Variables that would put code of the job's into the wrapper's own program are set inside of it.
void keep_from_wrapper(std::vector<std::string>& env, std::vector<std::string>& wrapper) {
  if (wrapper.empty()) return;
  const auto meant = [](const std::string& entry) {
    return std::ranges::any_of(kChangePrograms,
                               [&](std::string_view start) { return entry.starts_with(start); });
  };
  bool first = true;
  for (const std::string& entry : env) {
    if (!meant(entry)) continue;
    if (std::exchange(first, false)) wrapper.emplace_back("/usr/bin/env");
    wrapper.push_back(entry);
  }
  std::erase_if(env, meant);
}

// A command that may wait for input that never comes has an end by default.
std::optional<Millis> deadline_of(const RunRequest& request, const Settings& settings) {
  if (request.deadline || request.stdin_policy != core::StdinPolicy::open) return request.deadline;
  return settings.open_stdin_deadline;
}

Result<void> store_launch(Work& work, const RunRequest& request, const store::JobRow& job,
                          std::vector<std::string> wrapper) {
  const Settings& settings = work.settings();
  store::LaunchRow launch;
  launch.job = job.id;
  launch.shell = request.shell;
  launch.wrapper = std::move(wrapper);
  launch.deadline = deadline_of(request, settings);
  launch.grace = request.grace.value_or(settings.stop_grace);
  launch.umask = request.umask;
  launch.cap_bytes = request.cap_bytes.value_or(settings.output_cap_bytes);
  launch.head_bytes = std::min(settings.output_head_bytes, launch.cap_bytes / 2);
  launch.leftovers = request.leftovers;
  launch.stdin_policy = request.stdin_policy;
  launch.pty = request.pty;
  std::vector<std::string> env = job_environment(request, job.id);
  keep_from_wrapper(env, launch.wrapper);
  const LaunchSecret secret{request.command, request.argv, std::move(env)};
  launch.sealed = work.sealer().seal(pack_launch(secret), job.id.str());
  return store::insert_launch(work.db(), launch);
}

Result<void> claim(Work& work, store::JobRow& job) {
  TRY(work.settle_owed(core::OwedKind::start_within, job.id.str()));
  // It may have waited through a restart of the machine.
  if (const GenerationId now = work.parts().channel.generation(); job.scope.generation != now) {
    job.scope.generation = now;
    TRY(store::set_generation(work.db(), job.id, now));
  }
  TRY(work.apply(job, {core::JobTrigger::claim, std::nullopt, "daemon", "a slot was free", {}}));
  TRY(work.owe(core::OwedKind::supervise, job.id.str(), job.scope.owner, work.now()));
  work.supervise(job.id);
  return {};
}

std::optional<Result<RunReply>> replay(Work& work, const RunRequest& request,
                                       const std::string& print, bool reachable) {
  if (!request.key) return std::nullopt;
  const auto known = store::find_key(work.db(), request.caller.owner, *request.key);
  if (!known) return fail(known.error());
  if (!*known) return std::nullopt;
  if ((*known)->fingerprint != print) {
    return fail(ErrorCode::conflict,
                "The idempotency key " + request.key->str() +
                    " was used for another command, shell, directory or owner; use a new key.");
  }
  if ((*known)->gone) {
    return fail(ErrorCode::not_found,
                "Job " + (*known)->job.str() + " was started with the idempotency key " +
                    request.key->str() +
                    ", has ended and was removed since; nothing was started. Use a new key to run "
                    "the command again.");
  }
  const auto again = [&]() -> Result<RunReply> {
    TRY_ASSIGN(const store::JobRow job,
               store::need_job(work.db(), request.caller.owner, (*known)->job));
    RunReply reply;
    TRY_ASSIGN(reply.job, view_job(work.db(), job, Detail::full));
    reply.delivery_path = path_of(request, reachable);
    reply.replayed = true;
    return reply;
  };
  return again();
}

}  // namespace

Result<RunReply> run(Work& work, const Host&, const RunRequest& request, bool reachable) {
  const core::Owner& owner = request.caller.owner;
  TRY_ASSIGN(const std::optional<store::ClientRow> client, client_of(work, owner));
  if (client && !client->sealed_resume.empty()) reachable = true;  // closed, it can be started
  const std::string print = fingerprint(work, request);
  if (auto known = replay(work, request, print, reachable)) return std::move(*known);
  TRY(request.launchable);
  TRY(request.room);
  TRY_ASSIGN(store::SessionRow * session, work.session(owner));
  TRY(check_delivery_path(work, request, *session));
  TRY(check_limits(work, owner, *session));
  std::vector<std::string> wrapper;
  if (client) {
    TRY(check_rules({client->allow, client->deny}, request));
    wrapper = client->wrapper;
  }
  wrapper.insert(wrapper.end(), request.wrapper.begin(), request.wrapper.end());

  RunReply reply;
  TRY_ASSIGN(reply.twin, store::find_twin(work.db(), print));
  store::JobRow job = new_job(work, request, print);
  TRY(work.accept(job, request.caller.host_key ? "owner" : "user"));
  TRY(store_launch(work, request, job, wrapper));
  TRY(add_monitors(work, job, request.monitors));
  if (request.start_within) {
    TRY(work.owe(core::OwedKind::start_within, job.id.str(), owner,
                 work.now() + *request.start_within));
  }
  if (request.key) {
    TRY(store::insert_key(work.db(), owner, *request.key, {job.id, print}, work.wall()));
  }
  // Straight to a slot when nobody is waiting for one; otherwise in its turn.
  const bool slot = session->queued == 1 &&
                    session->running < work.settings().running_per_session &&
                    work.sequences().running < work.settings().running_per_node;
  if (slot) TRY(claim(work, job));
  TRY_ASSIGN(reply.job, view_new_job(work.db(), job, session->queued));
  reply.job.shell = request.shell;
  reply.job.wrapper = std::move(wrapper);
  reply.job.stdin_policy = request.stdin_policy;
  reply.job.pty = request.pty;
  reply.job.deadline = deadline_of(request, work.settings());
  reply.delivery_path = path_of(request, reachable);
  return reply;
}

Result<void> fill_slots(Work& work) {
  if (work.slots_held()) return {};
  while (work.sequences().running < work.settings().running_per_node) {
    // Counts in session rows must be on disk before the store is asked who is next.
    TRY(work.flush());
    TRY_ASSIGN(const std::vector<store::QueueHead> heads,
               store::queue_heads(work.db(), work.settings().running_per_session));
    bool claimed = false;
    for (const store::QueueHead& head : heads) {
      // Nothing new is started for an owner whose state does not parse (I12).
      if (work.poisoned(head.owner)) continue;
      auto job = store::find_job(work.db(), head.job);
      if (!job && job.error().code == ErrorCode::state_corrupt) {
        work.poison(head.owner, job.error().message);
        continue;
      }
      if (!job) return fail(job.error());
      if (!*job) continue;
      TRY(claim(work, **job));
      claimed = true;
      break;
    }
    if (!claimed) return {};
  }
  return {};
}

namespace {

Result<supervise::Origin> origin_of(Work& work, const store::JobRow& job) {
  supervise::Origin origin;
  origin.scope = job.scope;
  origin.owner = job.owner;
  origin.wake = job.wake;
  origin.label = job.label;
  TRY_ASSIGN(const std::optional<IdempotencyKey> key, store::key_of_job(work.db(), job.id));
  if (key) origin.key = key->str();
  origin.fingerprint = job.fingerprint;
  origin.incarnation = work.parts().incarnation;
  origin.accepted_at = job.created_at;
  return origin;
}

}  // namespace

Result<supervise::SuperviseOrder> supervise_order(Work& work, const store::JobRow& job) {
  supervise::SuperviseOrder order;
  order.job = job.id;
  if (core::is_terminal(job.status)) {
    TRY_ASSIGN(const std::optional<store::LeftoverRow> left,
               store::find_leftover(work.db(), job.id));
    if (left && left->stop && left->alive()) {
      order.stop = supervise::StopWish{left->stop->at, left->stop->actor, left->stop->reason};
    }
    return order;
  }
  if (job.status != core::JobStatus::running) return order;
  order.started = job.started_at.has_value();
  if (job.stop) {
    order.stop = supervise::StopWish{job.stop->at, job.stop->actor, job.stop->reason};
    return order;
  }
  // What is known to have started is never launched again, whatever became of its files (I10).
  if (job.started_at) return order;
  TRY_ASSIGN(const std::optional<store::LaunchRow> row, store::find_launch(work.db(), job.id));
  if (!row) {
    return fail(ErrorCode::state_corrupt, "Job " + job.id.str() + " has no launch record.");
  }
  TRY_ASSIGN(const std::string packed, work.sealer().unseal(row->sealed, job.id.str()));
  TRY_ASSIGN(LaunchSecret secret, unpack_launch(packed));
  supervise::LaunchOrder launch;
  launch.job = job.id;
  TRY_ASSIGN(launch.origin, origin_of(work, job));
  launch.node_seq = work.sequences().node;
  launch.shell = row->shell;
  launch.wrapper = row->wrapper;
  launch.command = std::move(secret.command);
  launch.argv = std::move(secret.argv);
  launch.env = std::move(secret.env);
  launch.cwd = job.cwd;
  launch.grace = row->grace;
  launch.umask = row->umask;
  launch.deadline = row->deadline;
  launch.cap_bytes = row->cap_bytes;
  launch.head_bytes = row->head_bytes;
  launch.leftovers = row->leftovers;
  launch.stdin_policy = row->stdin_policy;
  launch.pty = row->pty;
  launch.leftover_grace = work.settings().leftover_grace;
  launch.drain_grace = work.settings().drain_grace;
  launch.drain_max = work.settings().drain_max;
  order.launch = std::move(launch);
  return order;
}

}  // namespace waybill::engine
