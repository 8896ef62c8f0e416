#!/usr/bin/env python3
"""Real agents, offline, against a scripted model: in their terminals (under tmux), as one-shots, closed
and started again, their daemon killed in between. By name only; needs node, tmux and the agent.

    live.py WAYBILL claude|codex PROGRAM [FLOW…]   prints PASS or FAIL per flow; exit 1 when one fails
"""

import concurrent.futures
import hashlib
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

    client = ""

    def __init__(self, waybill, program, setup_flags=()):
        self.waybill, self.program = waybill, program
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="waybill-live-"))
        self.home, self.ws, self.data = self.dir / "home", self.dir / "ws", self.dir / "data"
        self.home.mkdir()
        self.ws.mkdir()
        (self.dir / "tmp").mkdir()
        self.log = self.dir / "model.log"
        self.model = subprocess.Popen(["node", str(HERE / "fake_model.mjs"), str(self.log)],
                                      stdout=subprocess.PIPE, text=True)
        self.port = int(self.model.stdout.readline())
        self.configure()
        subprocess.run([waybill, "setup", self.client, "--apply", *setup_flags], check=True,
                       env=self.env(WAYBILL_DATA=str(self.data)), stdout=subprocess.DEVNULL)
        self.approve()
        self.tmux = ["tmux", "-L", self.dir.name]

    def configure(self):
        """What a person has set and said yes to before."""

    def approve(self):
        """What a person says yes to after the set-up."""

    def env(self, **more):
        node = str(pathlib.Path(shutil.which("node")).parent)
        return {"PATH": node + ":/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8",
                "TERM": "xterm-256color", "TMPDIR": str(self.dir / "tmp"), **more}

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
                        f"cd {self.ws} && exec env -i {words} {self.program}"], check=True)
        self.until("a prompt", lambda: re.search(r"^\s?[>❯›]", self.screen(), re.M))

    def screen(self):
        shown = subprocess.run([*self.tmux, "capture-pane", "-p"], capture_output=True, text=True)
        return shown.stdout

    def type(self, text, key="Enter"):
        subprocess.run([*self.tmux, "send-keys", "-l", text], check=True)
        time.sleep(0.5)
        subprocess.run([*self.tmux, "send-keys", key], check=True)

    def key(self, key):
        subprocess.run([*self.tmux, "send-keys", key], check=True)

    # ---- one-shots

    def run(self, *words):
        return subprocess.run([self.program, *words], cwd=self.ws, env=self.env(),
                              capture_output=True, text=True, timeout=CAP,
                              stdin=subprocess.DEVNULL).stdout

    # ---- what became of a job

    def jobs(self):
        return self.cli("list", "--all-sessions").get("jobs", [])

    def job(self, label):
        return next((job for job in self.jobs() if job["label"] == label), None)

    def ended(self, label):
        return self.until(label + " to end", lambda: (
            lambda job: job if job and job["finished_at"] else None)(self.job(label)))

    def heard(self, label):
        """The model requests that held this job's event."""
        job = self.job(label)
        return job and [r for r in self.requests()
                        if any(s.startswith(job["id"] + ".") for s in r["seen"])]

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
        for entry in pathlib.Path("/proc").iterdir():  # daemons of the client's own
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if str(self.dir).encode() in (entry / "environ").read_bytes():
                        os.kill(int(entry.name), signal.SIGKILL)
                except (OSError, ProcessLookupError):
                    pass
        shutil.rmtree(self.dir, ignore_errors=True)


class Claude(Stand):
    client = "claude"

    def configure(self):
        (self.home / ".claude").mkdir()
        (self.home / ".claude.json").write_text(json.dumps({
            "hasCompletedOnboarding": True, "theme": "dark", "numStartups": 5,
            "customApiKeyResponses": {"approved": ["sk-ant-dummy"], "rejected": []},
            "projects": {str(self.ws): {"hasTrustDialogAccepted": True,
                                        "hasCompletedProjectOnboarding": True}}}))
        (self.home / ".claude" / "settings.json").write_text(
            json.dumps({"permissions": {"allow": ["mcp__waybill__start"]}}))

    def env(self, **more):
        return super().env(
            DISABLE_TELEMETRY="1", DISABLE_AUTOUPDATER="1", ENABLE_TOOL_SEARCH="false",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", ANTHROPIC_MODEL="claude-fake",
            ANTHROPIC_API_KEY="sk-ant-dummy", IS_SANDBOX="1",
            ANTHROPIC_BASE_URL=f"http://127.0.0.1:{self.port}", **more)

    def open_terminal(self):
        super().open_terminal()
        self.until("a waiting session", lambda: self.cli("status").get("reachable"))

    def one_shot(self, prompt):
        return json.loads(self.run("-p", prompt, "--output-format", "json"))["session_id"]

    def go_on(self, session, prompt):
        self.run("-p", prompt, "--resume", session, "--output-format", "json")


class Codex(Stand):
    client = "codex"

    def configure(self):
        (self.home / ".codex").mkdir()
        (self.home / ".codex" / "config.toml").write_text(f"""model = "fake"
model_provider = "fake"
approval_policy = "never"
sandbox_mode = "read-only"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.fake]
name = "fake"
base_url = "http://127.0.0.1:{self.port}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false
[projects."{self.ws}"]
trust_level = "trusted"
""")

    def approve(self):
        """Our tool without a question, and the hooks as if reviewed."""
        config = self.home / ".codex" / "config.toml"
        text = config.read_text().replace(
            "[mcp_servers.waybill]", '[mcp_servers.waybill]\ndefault_tools_approval_mode = "approve"')
        hooks = self.home / ".codex" / "hooks.json"
        for event, groups in json.loads(hooks.read_text())["hooks"].items():
            name = re.sub(r"(?<!^)([A-Z])", r"_\1", event).lower()
            for index, group in enumerate(groups):
                record = {"event_name": name,
                          "hooks": [{"async": False, "command": h["command"],
                                     "timeout": h["timeout"], "type": "command"}
                                    for h in group["hooks"]]}
                if "matcher" in group:
                    record["matcher"] = group["matcher"]
                packed = json.dumps(record, sort_keys=True, separators=(",", ":"))
                digest = hashlib.sha256(packed.encode()).hexdigest()
                text += (f'\n[hooks.state."{hooks}:{name}:{index}:0"]\n'
                         f'trusted_hash = "sha256:{digest}"\n')
        config.write_text(text)

    def env(self, **more):
        return super().env(FAKE_KEY="dummy", CODEX_HOME=str(self.home / ".codex"), **more)

    def one_shot(self, prompt):
        out = self.run("exec", "--skip-git-repo-check", "--json", prompt)
        return json.loads(out.splitlines()[0])["thread_id"]

    def go_on(self, session, prompt):
        self.run("exec", "resume", "--skip-git-repo-check", "--json", session, prompt)


def order(label, command, yield_ms=0):
    return "START " + json.dumps({"command": command, "label": label, "yield_ms": yield_ms})


def idle_terminal_is_woken(stand):
    stand.open_terminal()
    stand.type(order("one", "sleep 4; exit 3"))
    stand.ended("one")
    stand.until("the notice in a new turn", lambda: stand.heard("one"))
    stand.until("its acknowledgement", lambda: stand.state("one") == "acked")


def idle_terminal_is_woken_though_the_daemon_was_killed(stand):
    stand.open_terminal()
    stand.type(order("one", "sleep 4; exit 3"))
    stand.until("the job", lambda: stand.job("one"))
    stand.kill_daemon()
    stand.until("the notice in a new turn", lambda: stand.heard("one"))
    stand.until("its acknowledgement", lambda: stand.state("one") == "acked")


def interrupted_turn_swallows_nothing(stand):
    stand.open_terminal()
    stand.type(order("one", "sleep 4", 30000))
    stand.until("the job", lambda: stand.job("one"))
    stand.key("Escape")
    stand.until("the notice", lambda: stand.heard("one"))


def same_turn(stand, kill=False):
    """Two calls in one turn: the first one's job ends while the second one waits."""
    stand.one_shot(order("one", "sleep 1; exit 7") + "\n" + order("two", "sleep 4", 30000)) \
        if not kill else killed_meanwhile(stand)
    assert stand.heard("one")
    stand.until("its acknowledgement", lambda: stand.state("one") == "acked")
    stand.until("the other's", lambda: stand.state("two") == "acked")


def killed_meanwhile(stand):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        turn = pool.submit(stand.one_shot, order("one", "sleep 1; exit 7") + "\n" +
                           order("two", "sleep 6", 30000))
        stand.until("the second job", lambda: stand.job("two"))
        stand.kill_daemon()
        turn.result()


def same_turn_though_the_daemon_was_killed(stand):
    same_turn(stand, kill=True)


def quick_command_answers_inline(stand):
    stand.one_shot(order("one", "echo MARK-QUICK", 20000))
    assert any("MARK-QUICK" in r["seen"] for r in stand.requests())
    stand.until("its acknowledgement", lambda: stand.state("one") == "acked")


def closed_client_hears_at_its_next_start(stand, kill=False):
    session = stand.one_shot(order("one", "sleep 3; exit 3"))
    if kill:
        stand.kill_daemon()
    stand.ended("one")
    assert not stand.heard("one")
    stand.go_on(session, "go on")
    assert stand.heard("one")
    stand.until("its acknowledgement", lambda: stand.state("one") == "acked")


def closed_client_hears_though_the_daemon_was_killed(stand):
    closed_client_hears_at_its_next_start(stand, kill=True)


def closed_client_is_started_again(stand):
    stand.one_shot(order("one", "sleep 3; exit 3"))
    stand.kill_daemon()
    stand.ended("one")
    stand.until("the notice", lambda: stand.heard("one"))
    stand.until("its acknowledgement", lambda: stand.state("one") == "acked")
    starts = [job for job in stand.jobs() if job["session"] == "user"]
    assert len(starts) == 1, starts


FLOWS = [(idle_terminal_is_woken, ()), (idle_terminal_is_woken_though_the_daemon_was_killed, ()),
         (interrupted_turn_swallows_nothing, ()), (same_turn, ()),
         (same_turn_though_the_daemon_was_killed, ()),
         (quick_command_answers_inline, ()), (closed_client_hears_at_its_next_start, ()),
         (closed_client_hears_though_the_daemon_was_killed, ()),
         (closed_client_is_started_again, ("--resume-when-closed",))]


def main():
    waybill, client, program = (str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2],
                                str(pathlib.Path(sys.argv[3]).absolute()))
    kind = {"claude": Claude, "codex": Codex}[client]
    wanted = sys.argv[4:]
    version = re.search(r"[0-9]+(\.[0-9]+)+", subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True).stdout).group()
    failed = 0
    for flow, flags in FLOWS:
        if wanted and flow.__name__ not in wanted:
            continue
        stand = kind(waybill, program, flags)
        try:
            flow(stand)
            verdict = "PASS"
        except (AssertionError, KeyError, ValueError, IndexError, subprocess.SubprocessError) as error:
            verdict, failed = f"FAIL {error!r}", failed + 1
        finally:
            stand.close()
        print(f"{verdict}  {client} {version}  {flow.__name__}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
