#!/usr/bin/env python3
"""A scripted agent client: one process that runs hooks and an MCP server the way Claude Code and
Codex do (shapes recorded from Claude Code 2.1.197 and 2.1.332 and Codex 0.171.0), told by the test.

    scripted_client.py WAYBILL DATA CLIENT SESSION DIRECTORY
        reads one JSON object per line from stdin and answers each with one line:
          {"op":"hook","event":E,"fields":{…}}       -> {"exit","out","err"}
          {"op":"wait","event":"Wake"}               starts the re-wake hook in the background
          {"op":"stuck_hook","event":E,"fields":{…}} starts a hook that cannot print all it has to
          {"op":"kill_hook"}                         kills it, as a client does that is interrupted
          {"op":"woken"}                             -> {"exit","err"} once the oldest has ended
          {"op":"waiting"}                           -> {"waiting":bool}
          {"op":"call","tool":T,"arguments":{…},"call":ID,"turn":T}  -> the result of tools/call
          {"op":"at_once","commands":[…]}            each on a thread of its own -> a list
          {"op":"flags","flags":[…]}                 more words for every hook's command line
          {"op":"exit"}                              ends, without a word to any hook
    scripted_client.py … -p PROMPT --resume SESSION
        the same client started to go on with a session: runs the hooks of one turn and writes what
        the model would have read to SCRIPTED_LOG, a JSON line.
"""

import concurrent.futures
import json
import os
import signal
import subprocess
import sys


class Client:
    def __init__(self, waybill, data, client, session, directory):
        self.waybill, self.data, self.client = waybill, data, client
        self.session, self.directory = session, directory
        self.flags, self.server, self.waiters, self.next_id = [], None, [], 0

    def environment(self):
        env = dict(os.environ)
        if self.client == "claude":
            env.update(CLAUDE_CODE_SESSION_ID=self.session, CLAUDECODE="1",
                       CLAUDE_PROJECT_DIR=self.directory)
        return env

    def hook_input(self, event, fields):
        base = {"session_id": self.session, "transcript_path": "/nowhere/" + self.session,
                "cwd": self.directory, "permission_mode": "default", "hook_event_name": event}
        if self.client == "codex":
            base["model"] = "scripted"
            if "prompt_id" in fields:
                fields = dict(fields, turn_id=fields["prompt_id"])
                del fields["prompt_id"]
        return json.dumps({**base, **fields})

    def hook_words(self, event):
        # Claude Code runs hooks through a shell.
        return ["/bin/sh", "-c", '"$@"; exit $?', "sh", self.waybill, "hook", self.client, event,
                "--data", self.data, *self.flags]

    def hook(self, event, fields):
        done = subprocess.run(self.hook_words(event), input=self.hook_input(event, fields).encode(),
                              env=self.environment(), cwd=self.directory, capture_output=True)
        return {"exit": done.returncode, "out": done.stdout.decode(), "err": done.stderr.decode()}

    def stuck_hook(self, event, fields):
        read, write = os.pipe()
        os.set_blocking(write, False)
        try:
            while True:
                os.write(write, b" " * 65536)
        except BlockingIOError:
            pass
        os.set_blocking(write, True)
        self.stuck = subprocess.Popen(self.hook_words(event), stdin=subprocess.PIPE, stdout=write,
                                      stderr=subprocess.DEVNULL, env=self.environment(),
                                      cwd=self.directory, start_new_session=True)
        os.close(write)
        self.stuck_output = read
        self.stuck.stdin.write(self.hook_input(event, fields).encode())
        self.stuck.stdin.close()
        return {}

    def wait(self):
        waiter = subprocess.Popen(self.hook_words("Wake"), stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=self.environment(), cwd=self.directory)
        waiter.stdin.write(self.hook_input("Stop", {}).encode())
        waiter.stdin.close()
        waiter.stdin = None
        self.waiters.append(waiter)
        return {}

    def woken(self):
        waiter = self.waiters.pop(0)
        out, err = waiter.communicate()
        return {"exit": waiter.returncode, "out": out.decode(), "err": err.decode()}

    def request(self, method, params):
        self.next_id += 1
        message = {"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}
        self.server.stdin.write((json.dumps(message) + "\n").encode())
        self.server.stdin.flush()
        while True:
            answer = json.loads(self.server.stdout.readline())
            if answer.get("id") == self.next_id:
                return answer

    def serve(self):
        if self.server is not None:
            return
        # Codex hands its servers next to nothing.
        env = self.environment() if self.client == "claude" else {
            k: v for k, v in os.environ.items() if k in ("HOME", "PATH", "LANG", "TERM")}
        self.server = subprocess.Popen([self.waybill, "mcp", "--data", self.data], env=env,
                                       cwd=self.directory, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE)
        version = "2025-11-25" if self.client == "claude" else "2025-06-18"
        name = "claude-code" if self.client == "claude" else "codex-mcp-client"
        self.request("initialize", {"protocolVersion": version, "capabilities": {},
                                    "clientInfo": {"name": name, "version": "scripted"}})

    def call(self, command):
        self.serve()
        call = command.get("call", "")
        if self.client == "claude":
            meta = {"claudecode/toolUseId": call}
        else:
            meta = {"threadId": self.session, "sessionId": self.session, "callId": call,
                    "x-codex-turn-metadata": {"thread_id": self.session, "sandbox": "none",
                                              "sandbox_mode": "danger-full-access",
                                              "turn_id": command.get("turn", "")}}
        meta.update(command.get("meta", {}))
        params = {"name": command["tool"], "arguments": command["arguments"], "_meta": meta}
        return self.request("tools/call", params)

    def perform(self, command):
        op = command["op"]
        if op == "hook":
            return self.hook(command["event"], command.get("fields", {}))
        if op == "wait":
            return self.wait()
        if op == "woken":
            return self.woken()
        if op == "waiting":
            return {"waiting": any(one.poll() is None for one in self.waiters)}
        if op == "call":
            return self.call(command)
        if op == "stuck_hook":
            return self.stuck_hook(command["event"], command["fields"])
        if op == "kill_hook":
            os.killpg(self.stuck.pid, signal.SIGKILL)
            self.stuck.wait()
            return {}
        if op == "at_once":
            with concurrent.futures.ThreadPoolExecutor(len(command["commands"])) as pool:
                return list(pool.map(self.perform, command["commands"]))
        if op == "flags":
            self.flags = command["flags"]
            return {}
        raise ValueError(op)

    def obey(self):
        for line in sys.stdin:
            command = json.loads(line)
            if command["op"] == "exit":
                os._exit(0)
            print(json.dumps(self.perform(command)), flush=True)
        if self.server is not None:  # a client waits for its servers
            self.server.stdin.close()
            self.server.wait()

    def go_on(self, prompt):
        turn = "resumed-" + str(os.getpid())
        heard = []
        self.hook("SessionStart", {"source": "resume"})
        begun = self.hook("UserPromptSubmit", {"prompt_id": turn, "prompt": prompt})
        heard.append(begun["out"])
        blocked = '"decision":"block"' in begun["out"]
        while not blocked:
            end = self.hook("Stop", {"prompt_id": turn, "stop_hook_active": False})
            if not end["out"]:
                break
            heard.append(end["out"])
        with open(os.environ["SCRIPTED_LOG"], "a", encoding="utf-8") as log:
            log.write(json.dumps({"prompt": prompt, "blocked": blocked, "heard": heard}) + "\n")
        self.hook("SessionEnd", {"reason": "other"})


def main():
    if "-p" in sys.argv:
        at = sys.argv.index("-p")
        session = sys.argv[sys.argv.index("--resume") + 1]
        client = Client(os.environ["SCRIPTED_WAYBILL"], os.environ["SCRIPTED_DATA"], "claude",
                        session, os.getcwd())
        client.go_on(sys.argv[at + 1])
        return
    Client(*sys.argv[1:6]).obey()


if __name__ == "__main__":
    main()
