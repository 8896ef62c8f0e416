#!/usr/bin/env python3
"""Real Claude Code, offline, against a scripted model: in its terminal (under tmux), as a one-shot,
closed and started again. By name only; needs node, tmux and the installed client.

    claude_live.py WAYBILL CLAUDE [FLOW…]      prints PASS or FAIL per flow; exit 1 when one fails
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CAP = 60


class Stand:
    """A home of its own, a model, a data directory; ended with everything that it started."""

    def __init__(self, waybill, claude, setup_flags=()):
        self.waybill, self.claude = waybill, claude
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="waybill-live-"))
        self.home, self.ws, self.data = self.dir / "home", self.dir / "ws", self.dir / "data"
        (self.home / ".claude").mkdir(parents=True)
        self.ws.mkdir()
        self.log = self.dir / "model.log"
        self.model = subprocess.Popen(["node", str(HERE / "fake_model.mjs"), str(self.log)],
                                      stdout=subprocess.PIPE, text=True)
        self.port = int(self.model.stdout.readline())
        # What a person has said yes to before: the key, the folder, our tool.
        (self.home / ".claude.json").write_text(json.dumps({
            "hasCompletedOnboarding": True, "theme": "dark", "numStartups": 5,
            "customApiKeyResponses": {"approved": ["sk-ant-dummy"], "rejected": []},
            "projects": {str(self.ws): {"hasTrustDialogAccepted": True,
                                        "hasCompletedProjectOnboarding": True}}}))
        (self.home / ".claude" / "settings.json").write_text(
            json.dumps({"permissions": {"allow": ["mcp__waybill__start"]}}))
        subprocess.run([waybill, "setup", "claude", "--apply", *setup_flags], check=True,
                       env=self.env(WAYBILL_DATA=str(self.data)), stdout=subprocess.DEVNULL)
        self.tmux = ["tmux", "-L", self.dir.name]

    def env(self, **more):
        node = str(pathlib.Path(shutil.which("node")).parent)
        return {"PATH": node + ":/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8",
                "TERM": "xterm-256color", "TMPDIR": str(self.dir), "DISABLE_TELEMETRY": "1",
                "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "ENABLE_TOOL_SEARCH": "false", "ANTHROPIC_MODEL": "claude-fake", "IS_SANDBOX": "1",
                "ANTHROPIC_API_KEY": "sk-ant-dummy",
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{self.port}", **more}

    def cli(self, *words):
        done = subprocess.run([self.waybill, *words, "--data", str(self.data), "--json"],
                              capture_output=True, text=True, env=self.env(), timeout=CAP)
        return json.loads(done.stdout) if done.stdout.strip() else {}

    def kill_daemon(self):
        pid = self.cli("status", "--no-autostart").get("pid")
        if pid:
            os.kill(pid, signal.SIGKILL)

    def requests(self):
        """Of each model request, the event ids and MARK-… words that were in it."""
        if not self.log.exists():
            return []
        return [{"seen": json.loads(line)["planned"]["text"].split()[1:]}
                for line in self.log.read_text().splitlines()]

    def until(self, what, look):
        end = time.monotonic() + CAP
        while time.monotonic() < end:
            found = look()
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError("not seen: " + what + "\n" + self.screen())

    # ---- the terminal

    def open_terminal(self):
        words = " ".join(f"{k}='{v}'" for k, v in self.env().items())
        subprocess.run([*self.tmux, "new-session", "-d", "-x", "160", "-y", "50",
                        f"cd {self.ws} && exec env -i {words} {self.claude}"], check=True)
        self.until("a prompt", lambda: re.search(r"^\s?[>❯]", self.screen(), re.M))
        self.until("a waiting session", lambda: self.cli("status").get("reachable"))

    def screen(self):
        shown = subprocess.run([*self.tmux, "capture-pane", "-p"], capture_output=True, text=True)
        return shown.stdout

    def type(self, text, key="Enter"):
        subprocess.run([*self.tmux, "send-keys", "-l", text], check=True)
        time.sleep(0.3)
        subprocess.run([*self.tmux, "send-keys", key], check=True)

    def key(self, key):
        subprocess.run([*self.tmux, "send-keys", key], check=True)

    # ---- one-shots

    def one_shot(self, prompt, *flags):
        done = subprocess.run([self.claude, "-p", prompt, *flags, "--output-format", "json"],
                              cwd=self.ws, env=self.env(), capture_output=True, text=True,
                              timeout=CAP, stdin=subprocess.DEVNULL)
        return json.loads(done.stdout)

    def jobs(self):
        return self.cli("list", "--all-sessions")["jobs"]

    def job(self, label):
        return next((job for job in self.jobs() if job["label"] == label), None)

    def ended(self, label):
        return self.until(label + " to end", lambda: (
            lambda job: job if job and job["finished_at"] else None)(self.job(label)))

    def events_heard(self, label):
        """How many model requests of the conversation were the first to hold this job's event."""
        job = self.job(label)
        if job is None:
            return []
        return [r for r in self.requests() if any(s.startswith(job["id"] + ".") for s in r["seen"])]

    def state(self, label):
        job = self.job(label)
        shown = self.cli("show", job["id"], "--session", job["session"])
        return shown["job"]["events"][0]["state"]

    def close(self):
        subprocess.run([*self.tmux, "kill-server"], capture_output=True, check=False)
        for _ in range(3):  # what still waits may start one more
            self.cli("shutdown", "--no-autostart", "--stop-jobs")
            time.sleep(0.5)
        self.model.kill()
        shutil.rmtree(self.dir, ignore_errors=True)


def order(label, command, yield_ms=0):
    return "START " + json.dumps({"command": command, "label": label, "yield_ms": yield_ms})


def idle_terminal_is_woken(stand):
    stand.open_terminal()
    stand.type(order("one", "sleep 4; exit 3"))
    stand.ended("one")
    stand.until("the notice in a new turn", lambda: stand.events_heard("one"))
    stand.until("its acknowledgement", lambda: stand.state("one") == "acked")


def idle_terminal_is_woken_though_the_daemon_was_killed(stand):
    stand.open_terminal()
    stand.type(order("one", "sleep 4; exit 3"))
    stand.until("the job", lambda: stand.job("one"))
    stand.kill_daemon()
    stand.until("the notice in a new turn", lambda: stand.events_heard("one"))
    stand.until("its acknowledgement", lambda: stand.state("one") == "acked")


def interrupted_turn_swallows_nothing(stand):
    stand.open_terminal()
    stand.type(order("one", "sleep 4", 30000))
    stand.until("the job", lambda: stand.job("one"))
    stand.key("Escape")
    stand.until("the notice", lambda: stand.events_heard("one"))


def same_turn(stand):
    answer = stand.one_shot(order("one", "exit 7"))
    assert stand.events_heard("one"), answer["result"]
    assert len(stand.jobs()) == 1
    stand.until("its acknowledgement", lambda: stand.state("one") == "acked")


def quick_command_answers_inline(stand):
    stand.one_shot(order("one", "echo MARK-QUICK", 20000))
    assert any("MARK-QUICK" in r["seen"] for r in stand.requests())
    stand.until("its acknowledgement", lambda: stand.state("one") == "acked")


def closed_client_hears_at_its_next_start(stand, kill=False):
    first = stand.one_shot(order("one", "sleep 3; exit 3"))
    if kill:
        stand.kill_daemon()
    stand.ended("one")
    assert not stand.events_heard("one")
    again = stand.one_shot("go on", "--resume", first["session_id"])
    assert again["session_id"] == first["session_id"]
    assert stand.events_heard("one")
    stand.until("its acknowledgement", lambda: stand.state("one") == "acked")


def closed_client_hears_though_the_daemon_was_killed(stand):
    closed_client_hears_at_its_next_start(stand, kill=True)


def closed_client_is_started_again(stand):
    stand.one_shot(order("one", "sleep 3; exit 3"))
    stand.kill_daemon()
    stand.ended("one")
    stand.until("the notice", lambda: stand.events_heard("one"))
    stand.until("its acknowledgement", lambda: stand.state("one") == "acked")
    starts = [job for job in stand.jobs() if job["session"] == "user"]
    assert len(starts) == 1, starts


FLOWS = [(idle_terminal_is_woken, ()), (idle_terminal_is_woken_though_the_daemon_was_killed, ()),
         (interrupted_turn_swallows_nothing, ()), (same_turn, ()),
         (quick_command_answers_inline, ()), (closed_client_hears_at_its_next_start, ()),
         (closed_client_hears_though_the_daemon_was_killed, ()),
         (closed_client_is_started_again, ("--resume-when-closed",))]


def main():
    waybill, claude = (str(pathlib.Path(p).resolve()) for p in sys.argv[1:3])
    wanted = sys.argv[3:]
    version = subprocess.run([claude, "--version"], capture_output=True, text=True, check=True)
    failed = 0
    for flow, flags in FLOWS:
        if wanted and flow.__name__ not in wanted:
            continue
        stand = Stand(waybill, claude, flags)
        try:
            flow(stand)
            verdict = "PASS"
        except (AssertionError, KeyError, subprocess.SubprocessError) as error:
            verdict, failed = f"FAIL {error}", failed + 1
        finally:
            stand.close()
        print(f"{verdict}  claude {version.stdout.split()[0]}  {flow.__name__}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
