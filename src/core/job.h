#pragma once
// The words of a job: status, cause, owner kind and policies (SPEC sections 3 and 4).

#include "core/words.h"

namespace waybill::core {

enum class JobKind { command, agent };
WAYBILL_WORDS(JobKind, 2, "command", "agent");

enum class JobStatus { queued, running, waiting_on_user, succeeded, failed, stopped };
WAYBILL_WORDS(JobStatus, 6, "queued", "running", "waiting_on_user", "succeeded", "failed",
              "stopped");

constexpr bool is_terminal(JobStatus status) {
  switch (status) {
    case JobStatus::succeeded:
    case JobStatus::failed:
    case JobStatus::stopped:
      return true;
    case JobStatus::queued:
    case JobStatus::running:
    case JobStatus::waiting_on_user:
      return false;
  }
  return false;
}

// Why a transition happened. "Killed" is never anonymous.
enum class Cause {
  exit,
  signal,
  model,
  user,
  op,  // "operator" on the wire; the word is reserved in C++
  owner_teardown,
  turn_stopped,
  deadline,
  output_cap,
  out_of_memory,
  supervisor_lost,
  sandbox_replaced,
  worker_lost,
  quota,
  budget,
  not_started,
};
WAYBILL_WORDS(Cause, 16, "exit", "signal", "model", "user", "operator", "owner_teardown",
              "turn_stopped", "deadline", "output_cap", "out_of_memory", "supervisor_lost",
              "sandbox_replaced", "worker_lost", "quota", "budget", "not_started");

// Whether a job outlives its turn.
enum class OwnerKind { session, turn };
WAYBILL_WORDS(OwnerKind, 2, "session", "turn");

enum class WakePolicy { always, on_failure, never };
WAYBILL_WORDS(WakePolicy, 3, "always", "on_failure", "never");

enum class LeftoverPolicy { kill, keep };
WAYBILL_WORDS(LeftoverPolicy, 2, "kill", "keep");

// What the command reads: nothing, or what `write` gives it until that is closed.
enum class StdinPolicy { null, open };
WAYBILL_WORDS(StdinPolicy, 2, "null", "open");

// How the result will come, as promised at launch; never more than the host can do.
enum class DeliveryPath { this_turn, wake, next_attach };
WAYBILL_WORDS(DeliveryPath, 3, "this_turn", "wake", "next_attach");

}  // namespace waybill::core
