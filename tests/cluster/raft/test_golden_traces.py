"""Golden traces of Raft: a scenario in, all messages out (`golden/*.txt`, of the form that `golden` describes).

Commands, one a line; they continue the state of the blocks above:

    group ABC             new peers; small letters are PRE_VOTERs
    campaign A            an election begins at once          tick A        the peer's deadline passes
    deliver               all messages on their way arrive    settle        messages and syncs until none is left
    sync A                its disk catches up with its log    propose A x y two entries
    cut A, heal A         no message reaches or leaves it     slow A, fast A  its disk does not sync, or does
    pass 3                seconds, with messages and syncs, of which nothing is printed
    transfer A B          leadership to B                     peers A ABCd  another configuration

Output: what each peer sends, what it makes durable, where its commit index is, and each change of its role.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, fields
from nyala.cluster.raft.events import Campaign, ChangePeers, Event, Ready, Received, Tick, Transfer
from nyala.cluster.raft.messages import Configuration, Entry, Message
from raft_node_support import Group, peers

SCRIPTS = sorted((Path(__file__).parent / "golden").glob("*.txt"))


def shown_entry(entry: Entry) -> str:
    """Index@term, and the body where a client wrote it."""
    return f"{entry.index}@{entry.term}{f' {entry.body.decode()}' if entry.kind == 1 else ''}"


def shown(message: Message) -> str:
    """A message without the fields that have their defaults, and without its sender."""
    defaults = {field.name: field.default for field in fields(message)}
    values = {name: value for name, value in asdict(message).items() if value != defaults[name] and name != "sender"}
    if "entries" in values:
        values["entries"] = f"[{', '.join(shown_entry(entry) for entry in message.entries)}]"  # type: ignore[union-attr]
    return f"{type(message).__name__} " + " ".join(f"{name}={value}" for name, value in values.items())


class Trace(Group):
    """A group that notes what its peers do."""

    def __init__(self, names: str):
        self.lines: list[str] = []
        super().__init__(names)

    def step(self, id: str, event: Event) -> Ready:
        node = self.nodes[id]
        before = node.role
        ready = super().step(id, event)
        if ready.hard_state is not None:
            self.lines.append(f"{id} keeps term {ready.hard_state.term}, vote {ready.hard_state.vote or 'none'}")
        if ready.truncated_to is not None:
            self.lines.append(f"{id} truncates its log to {ready.truncated_to}")
        if node.role is not before:
            self.lines.append(f"{id} is {node.role} of term {node.term}")
        if ready.configuration is not None:
            self.lines.append(f"{id} has configuration {shown_peers(ready.configuration)}")
        self.lines += [f"{id} > {peer.id}: {shown(message)}" for peer, message in ready.messages]
        if ready.commit_index is not None:
            self.lines.append(f"{id} commits up to {ready.commit_index}")
        if ready.ignored:
            self.lines.append(f"{id} ignores: {ready.ignored}")
        return ready

    def deliver(self) -> None:
        """Each message that is on its way now arrives."""
        wire, self.wire = self.wire, []
        for id, message in wire:
            if id not in self.cut:
                self.step(id, Received(message))


def shown_peers(configuration: Configuration) -> str:
    return "".join(peer.id if peer in configuration.voters else peer.id.lower() for peer in configuration.peers)


class Player:
    """Runs the commands of a script."""

    def __init__(self) -> None:
        self.group = Trace("ABC")

    def play(self, script: str) -> str:
        """Runs a block of commands; returns the printed lines."""
        if script.startswith("group "):
            self.group = Trace(script.split()[1])
            return ""
        self.group.lines = []
        for line in script.splitlines():
            self._command(*line.split())
        return "\n".join(self.group.lines)

    def _command(self, word: str, *rest: str) -> None:
        group = self.group
        commands: dict[str, Callable[..., Any]] = {
            "campaign": lambda id: group.step(id, Campaign()),
            "tick": self._tick,
            "pass": self._pass,
            "deliver": group.deliver,
            "settle": group.settle,
            "sync": group.sync,
            "propose": lambda id, *words: group.propose(id, *(word.encode() for word in words)),
            "cut": group.cut.add,
            "heal": group.cut.discard,
            "slow": group.slow.add,
            "fast": group.slow.discard,
            "transfer": lambda id, target: group.step(id, Transfer(target)),
            "peers": lambda id, names: group.step(id, ChangePeers(peers(names))),
        }
        commands[word](*rest)

    def _pass(self, seconds: str) -> None:
        count = len(self.group.lines)
        self.group.run(float(seconds))
        del self.group.lines[count:]

    def _tick(self, id: str) -> None:
        group = self.group
        group.now = max(group.now, group.nodes[id].deadline)
        group.step(id, Tick())


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_scenario_sends_what_it_sent(path: Path, golden: Callable[[Path, Callable[[str], str]], None]) -> None:
    golden(path, Player().play)
