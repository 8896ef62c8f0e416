#!/usr/bin/env python3
"""A scripted Claude Code in stream-json mode.

scripted_claude.py FIFO [further arguments are those of the real one]

Speaks the recorded shapes on stdin and stdout, tells of each line it reads (system/heard), and does what the words in a user's line say:
  TOOL   a tool is called; its result comes when a line is written to FIFO
  EXIT n ends with that code
  DIE    ends by SIGKILL
"""

import json
import os
import re
import signal
import sys
import threading

session = os.environ.get("SCRIPTED_SESSION", "11111111-2222-3333-4444-555555555555")
lines = []
voice = threading.Lock()
more = threading.Condition()


def say(message):
    with voice:
        sys.stdout.write(json.dumps({**message, "session_id": session}, separators=(",", ":")))
        sys.stdout.write("\n")
        sys.stdout.flush()


def assistant(block):
    say({"type": "assistant", "message": {"role": "assistant", "content": [block]},
         "parent_tool_use_id": None})


def read_input():
    for line in sys.stdin:
        with more:
            lines.append(line)
            say({"type": "system", "subtype": "heard"})
            more.notify_all()
    with more:
        lines.append(None)
        more.notify_all()


def text_of(line):
    content = json.loads(line)["message"]["content"]
    return content if isinstance(content, str) else "".join(c["text"] for c in content)


def take_all():
    texts = []
    while lines and lines[0] is not None:
        texts.append(text_of(lines.pop(0)))
    return texts


def turn(text, fifo):
    say({"type": "system", "subtype": "init", "cwd": os.getcwd(), "tools": []})
    seen = [text]
    if "EXIT" in text:
        sys.stdout.flush()
        os._exit(int(re.search(r"EXIT (\d+)", text).group(1)))
    if "TOOL" in text:
        assistant({"type": "tool_use", "id": "toolu_1", "name": "x", "input": {}})
        with open(fifo, encoding="utf-8") as gate:
            gate.readline()
        say({"type": "user", "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}]},
            "parent_tool_use_id": None})
        with more:
            seen += take_all()
    if "DIE" in text:
        os.kill(os.getpid(), signal.SIGKILL)
    assistant({"type": "text", "text": "\n".join(seen)})
    say({"type": "result", "subtype": "success", "is_error": False, "result": "\n".join(seen)})


def main():
    threading.Thread(target=read_input, daemon=True).start()
    while True:
        with more:
            more.wait_for(lambda: lines)
            line = lines.pop(0)
        if line is None:
            return
        turn(text_of(line), sys.argv[1])


main()
