#!/usr/bin/env python3
"""A scripted Codex app-server: WebSocket on a unix socket, JSON-RPC without `jsonrpc`.

scripted_codex.py SOCKET

Told what to do by lines of JSON on stdin, each answered by {"done": true} on stdout:
  {"thread": STATUS, "turn": ID}      how the thread stands from now on
  {"once": METHOD, "thread": STATUS, "turn": ID}   … just before the next call of that method
  {"hold": METHOD}                    the next call of that method is answered after {"release": 1}
Every call is told on stdout as {"call": METHOD, "params": {...}} before it is answered.
"""

import base64
import hashlib
import json
import os
import socket
import struct
import sys
import threading

lock = threading.Lock()
thread = {"status": "idle", "turn": ""}
once = {}
held = {}
turns = 0


def say(message):
    with lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def exactly(stream, count):
    data = stream.read(count)
    if len(data) != count:
        raise EOFError
    return data


def read_frame(stream):
    first, second = exactly(stream, 2)
    length = second & 127
    if length == 126:
        (length,) = struct.unpack(">H", exactly(stream, 2))
    elif length == 127:
        (length,) = struct.unpack(">Q", exactly(stream, 8))
    mask = exactly(stream, 4) if second & 128 else b"\0\0\0\0"
    body = bytes(b ^ mask[i % 4] for i, b in enumerate(exactly(stream, length)))
    return first & 15, body


def frame(text):
    body = text.encode()
    if len(body) < 126:
        return bytes([0x81, len(body)]) + body
    return bytes([0x81, 126]) + struct.pack(">H", len(body)) + body


def answer(method, params):
    global turns
    if method == "initialize":
        return {"result": {"userAgent": "scripted"}}
    if method == "thread/read":
        status = {"type": thread["status"]}
        if status["type"] == "active":
            status["activeFlags"] = []
        return {"result": {"thread": {"id": params["threadId"], "status": status}}}
    if method == "thread/turns/list":
        return {"error": {"code": -32600, "message": "thread/turns/list is not known"}}
    if method == "turn/steer":
        if thread["status"] != "active":
            return {"error": {"code": -32600, "message": "no active turn to steer"}}
        if params["expectedTurnId"] != thread["turn"]:
            text = "expected active turn id `%s` but found `%s`"
            return {"error": {"code": -32600,
                              "message": text % (params["expectedTurnId"], thread["turn"])}}
        return {"result": {"turnId": thread["turn"]}}
    if method == "turn/start":
        if thread["status"] != "active":
            turns += 1
            thread.update(status="active", turn="started-%d" % turns)
        return {"result": {"turn": {"id": thread["turn"], "items": [], "status": "inProgress"}}}
    return {"error": {"code": -32601, "message": "unknown method " + method}}


def converse(connection):
    stream = connection.makefile("rb")
    key = ""
    while (line := stream.readline().strip()):
        name, _, value = line.decode().partition(":")
        if name.lower() == "sec-websocket-key":
            key = value.strip()
    accept = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
    connection.sendall(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                        "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n"
                        % base64.b64encode(accept).decode()).encode())
    while True:
        kind, body = read_frame(stream)
        if kind == 8:
            return
        message = json.loads(body)
        if "id" not in message:
            continue
        method, params = message["method"], message.get("params", {})
        if method in once:
            thread.update(once.pop(method))
        if method not in ("initialize", "thread/turns/list"):
            say({"call": method, "params": params})
        if method in held:
            held.pop(method).wait()
        connection.sendall(frame(json.dumps({"id": message["id"], **answer(method, params)})))


def serve(listener):
    while True:
        connection, _ = listener.accept()

        def guarded(one=connection):
            try:
                converse(one)
            except (EOFError, OSError, ValueError):
                pass
            one.close()

        threading.Thread(target=guarded, daemon=True).start()


def main():
    path = sys.argv[1]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    listener.listen(16)
    os.rename(path + ".new", path)
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    release = threading.Event()
    say({"done": True})
    for line in sys.stdin:
        order = json.loads(line)
        state = {"status": order.get("thread", ""), "turn": order.get("turn", "")}
        if "once" in order:
            once[order["once"]] = state
        elif "hold" in order:
            release = held[order["hold"]] = threading.Event()
        elif "release" in order:
            release.set()
        else:
            thread.update(state)
        say({"done": True})


main()
