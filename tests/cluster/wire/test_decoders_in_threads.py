"""First decodings by several threads at once, in fresh processes that switch threads as often as they can.

msgspec publishes type information of a Struct class before it is complete, so that two threads that build decoders at
the same time end the process by SIGSEGV (`cluster.decoders`).
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROCESSES = int(os.environ.get("NYALA_PROCESSES", "6"))
"""Number of each kind. If threads build the decoders that they use, 1 of 2 to 4 fresh processes dies."""

_DECODE_ALL = """
import sys, threading
import msgspec
from nyala.cluster.wire.messages import envelope, load_methods, methods
from nyala.cluster.wire.messages.errors import error_to_body
from nyala.errors import NotTheLeader

sys.setswitchinterval(1e-6)
encode = msgspec.msgpack.Encoder().encode
answers = [(kind, encode((1, "s", None, error_to_body(NotTheLeader("t", "a:1", 1)))))
           for kind in methods.Reply.__subclasses__()]
ready = threading.Barrier(8)

def decode(thread):
    ready.wait()
    for place in range(len(answers)):
        kind, body = answers[(place * 5 + thread) % len(answers)]
        envelope.reply_decoder(kind).decode(body)
    envelope.request_decoder()

threads = [threading.Thread(target=decode, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""

_IMPORT_LATE = """
import importlib, sys, threading

sys.setswitchinterval(1e-6)
names = ["wire.calls.rpc", "wire.rows.scan_streams", "tablets.exactly_once", "tablets.superblock", "tablets.layout",
         "embedded_server.server_record", "consensus.consensus_file", "master.catalog.records"]
ready = threading.Barrier(len(names))

def load(name):
    ready.wait()
    importlib.import_module("nyala.cluster." + name)

threads = [threading.Thread(target=load, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""

_CLASSES_OF_LATER = """
import sys, threading
from msgspec import Struct
from nyala.cluster.decoders import converter, json_decoder, msgpack_decoder

class Leaf(Struct):
    a: int
    b: str
    c: tuple[int, ...] = ()

class Branch(Struct):
    leaf: Leaf
    leaves: list[Leaf]

class Tree(Struct):
    branch: Branch
    leaves: dict[str, Leaf]

sys.setswitchinterval(1e-6)
leaf = {"a": 1, "b": "x"}
branch = {"leaf": leaf, "leaves": [leaf]}
makers = [(msgpack_decoder, Leaf), (json_decoder, Branch), (converter, Tree), (msgpack_decoder, Tree)]
ready = threading.Barrier(8)

def build(thread):
    ready.wait()
    maker, kind = makers[thread % len(makers)]
    maker(kind)
    assert converter(Tree)({"branch": branch, "leaves": {"k": leaf}}).branch.leaf.a == 1

threads = [threading.Thread(target=build, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize("program", [_DECODE_ALL, _IMPORT_LATE, _CLASSES_OF_LATER], ids=["replies", "imports", "later"])
def test_threads_may_decode_at_once_for_the_first_time(program: str) -> None:
    ends = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        for _ in range(PROCESSES)
    ]
    assert [end.returncode for end in ends] == [0] * PROCESSES, next(end.stderr for end in ends if end.returncode)
