"""Commands of nyala in processes of their own that start at once: forks of one process that has imported nyala.

A process that imports nyala for one short command takes almost a second of processor time, a fork 0.14 s. A fork has
its own standard streams, which are files here, arguments, folder and environment, and ends as an interpreter ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

SERVER = '''
"""Forks a command per line of input, {"arguments", "folder", "environment", "streams"}; prints the exit code."""
import gc, json, os, sys
from nyala.__main__ import main

# The first statements import modules, and compile methods of dataclasses.
replies = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
main(["shell", "-c", "CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1); SELECT k FROM t ORDER BY k"])
sys.stdout.flush()
os.dup2(replies, 1)
gc.collect()
gc.freeze()  # a collection in a fork would copy the pages of these objects

def become(call):
    os.chdir(call["folder"])
    os.environ.clear()
    os.environ.update(call["environment"])
    for number, path in enumerate(call["streams"]):
        os.dup2(os.open(path, os.O_WRONLY if number else os.O_RDONLY), number)
    sys.stdin, sys.stdout = open(0, encoding="utf-8"), open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    sys.argv = ["nyala", *call["arguments"]]

while line := sys.stdin.readline():
    child = os.fork()
    if child == 0:
        become(json.loads(line))
        sys.exit(main(sys.argv[1:]))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
'''


def nyala(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command with this text as its standard input; its exit code and what it printed."""
    words = list(map(str, arguments))
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("in", "out", "error")]
        for path, text in zip(streams, (stdin, "", ""), strict=True):
            path.write_text(text, encoding="utf-8")
        call = {
            "arguments": words,
            "folder": str(Path.cwd()),
            "environment": dict(os.environ),
            "streams": list(map(str, streams)),
        }
        server = _server()
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps(call) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        printed, failed = (path.read_text(encoding="utf-8") for path in streams[1:])
    return subprocess.CompletedProcess(words, code, printed, failed)


@cache
def _server() -> subprocess.Popen[str]:
    """The process that forks. It ends with this one, at the end of its input."""
    return subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
