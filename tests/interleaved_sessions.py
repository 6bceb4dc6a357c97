"""Golden scripts of interleaved sessions: one block is one history, run at both isolation levels.

    a: BEGIN                                    a statement of session a
    x = a: SELECT value FROM test WHERE id = 1  the same; x is its only value, or the list of its rows
    anomaly: x != y                             True if the history shows the anomaly; `committed` has the sessions
    PostgreSQL: ...                             what PostgreSQL does, for the reader
    ---
    SNAPSHOT: prevented                         then each result and error

Every session is a connection with the isolation level as its default. The table is `test (id, value)`, with the rows
(1, 10) and (2, 20).
"""

from __future__ import annotations

import re

import nyala

LEVELS = ("SNAPSHOT", "SERIALIZABLE")
_STEP = re.compile(r"(?:(?P<name>\w+) = )?(?P<session>[a-z]): (?P<sql>.+)")


class History:
    """One run of a block."""

    def __init__(self, level, partitions=""):
        self.level = level
        self.lines = []
        self.names = {"committed": set(), "sorted": sorted}
        self.first = nyala.connect(":memory:")
        self.first.execute(f"CREATE TABLE test (id INT PRIMARY KEY, value INT) {partitions}")
        self.first.execute("INSERT INTO test VALUES (1, 10), (2, 20)")
        self.sessions = {}

    def session(self, name):
        if name not in self.sessions:
            self.sessions[name] = self.first.duplicate()
            self.sessions[name].isolation_level = self.level
        return self.sessions[name]

    def step(self, name, session, sql):
        connection = self.session(session)
        try:
            cursor = connection.execute(sql)
        except nyala.Error as error:
            first = str(error).splitlines()[0]
            self.lines.append(f"  {session}: {sql}: {type(error).__name__} {error.sqlstate}: {first}")
            return
        if sql.upper().startswith("COMMIT"):
            self.names["committed"].add(session)
        if cursor.description is not None:
            rows = cursor.fetchall()
            self.lines.append(f"  {session}: {sql}: {', '.join(map(str, rows)) or 'no rows'}")
            if name:
                single = len(rows) == 1 and len(rows[0]) == 1
                self.names[name] = rows[0][0] if single else rows

    def close(self):
        for connection in (*self.sessions.values(), self.first):
            connection.close()


def play(block, partitions=""):
    """The output of one block at both levels."""
    lines = []
    for level in LEVELS:
        history = History(level, partitions)
        anomaly = None
        try:
            for line in block.splitlines():
                if line.startswith("anomaly: "):
                    anomaly = line.removeprefix("anomaly: ")
                elif not line.startswith("PostgreSQL: "):
                    match = _STEP.fullmatch(line)
                    assert match is not None, line
                    history.step(match["name"], match["session"], match["sql"])
            outcome = "ALLOWED" if eval(anomaly, {}, history.names) else "prevented"
            rows = history.first.execute("SELECT id, value FROM test ORDER BY id").fetchall()
            lines += [f"{level}: {outcome}", *history.lines, f"  at the end: {', '.join(map(str, rows))}"]
        finally:
            history.close()
    return "\n".join(lines)
