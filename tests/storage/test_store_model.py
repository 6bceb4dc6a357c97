"""A store against a dictionary: any sequence of inserts, loads, flushes, reopenings and crashes."""

from __future__ import annotations

import random

from examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from nyala.errors import AlreadyPresent, CorruptionError, DiskError
from nyala.model.predicates import Range
from nyala.model.store import Op, ScanSpec, WriteBatch
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from nyala.storage.inspect.check.check_store import check_store
from row_path_support import few_rows
from tablet_support import HASHED, ONE_TABLET, batch, definition, insert, load, read, read_tokens

KEYS = st.lists(st.integers(0, 60), min_size=1, max_size=12)


def files_below(fs: CrashableFileSystem, path: str) -> list[str]:
    """The files in a directory and those below it."""
    found = []
    for name in fs.list(path):
        inner = f"{path}/{name}"
        try:
            found += files_below(fs, inner)
        except DiskError:
            found.append(inner)
    return found


def spoil(fs: CrashableFileSystem, paths: list[str], how: str, rng: random.Random) -> None:
    """Damage a file: one bit is another, its end is missing, all of it is, or it is in another's place."""
    contents = [bytearray(fs.open(path).read_at(0, fs.open(path).size)) for path in paths]
    if how == "remove":
        fs.remove(paths[0])
        return
    if how == "flip":
        contents[0][rng.randrange(len(contents[0]))] ^= 1 << rng.randrange(8)
    elif how == "cut":
        del contents[0][rng.randrange(len(contents[0])) :]
    else:
        contents.reverse()
    for path, content in zip(paths, contents):
        fs.create(path).write(bytes(content))


class StoreMachine(RuleBasedStateMachine):
    """The model is `self.rows`, key to text. Tokens taken at some moment must give that moment's rows for ever."""

    tokens = Bundle("tokens")

    @initialize(
        partitions=st.sampled_from([ONE_TABLET, HASHED]),
        limit=st.sampled_from([1_500, 1 << 20]),
        few=st.sampled_from([150, 12, -1]),
    )
    def open_store(self, partitions, limit, few):
        self.limited = few_rows(few)
        self.limited.__enter__()
        self.fs = CrashableFileSystem()
        self.disk = FaultyFileSystem(self.fs)
        self.options = {"memrowset_bytes": limit, "segment_bytes": 1500}
        self.generation = 0
        self.rows: dict[int, str] = {}
        self.writes = 0
        self.db = Database("db", fs=self.disk, **self.options)
        self.table = self.db.create_table(definition(partitions=partitions))

    def text(self) -> str:
        self.writes += 1
        return f"w{self.writes}-"

    @rule(keys=KEYS, op=st.sampled_from([Op.INSERT, Op.INSERT_IGNORE]))
    def write(self, keys, op):
        text = self.text()
        result = insert(self.db, self.table, keys, text, op)
        seen, refused = set(self.rows), []
        for row, key in enumerate(keys):
            if key in seen:
                refused.append(row)
            seen.add(key)
        assert result.applied == len(keys) - len(refused)
        assert [e.row for e in result.errors] == (refused if op is Op.INSERT else [])
        for key in keys:
            self.rows.setdefault(key, f"{text}{key}")

    @rule(keys=KEYS)
    def write_all_or_none(self, keys):
        text = self.text()
        result = self.db.write(self.table, WriteBatch(batch(keys, text), all_or_none=True))
        if len(set(keys)) < len(keys) or set(keys) & set(self.rows):
            assert result.applied == 0
            assert result.errors
        else:
            assert (result.applied, result.errors) == (len(keys), ())
            self.rows.update({key: f"{text}{key}" for key in keys})

    @rule(
        keys=KEYS,
        operation=st.sampled_from(["write", "sync"]),
        pattern=st.sampled_from(["*/wal/*", "*/commits/*.log"]),
        nth=st.integers(1, 3),
        message=st.sampled_from(["Input/output error", "No space left on device"]),
        keep=st.sampled_from([0.0, 0.5, 1.0]),
    )
    def write_on_a_disk_that_fails(self, keys, operation, pattern, nth, message, keep):
        """All of a statement or nothing, however many tablets it has: live, and in what a loss of power leaves."""
        text = self.text()
        self.disk.fail(operation, pattern, nth=nth, times=1, message=message)
        try:
            self.db.write(self.table, WriteBatch(batch(keys, text), Op.UPSERT, all_or_none=True))
        except DiskError as error:
            assert error.retryable
        else:
            self.rows.update({key: f"{text}{key}" for key in keys})
        finally:
            self.disk.heal()
        with Database("db", fs=self.fs.crash(keep, random.Random(nth)), background=False, **self.options) as db:
            assert read(db, db.table("t")) == sorted(self.rows.items())

    @rule(parts=st.lists(KEYS, max_size=3))
    def bulk_load(self, parts):
        text = self.text()
        keys = [key for part in parts for key in part]
        if len(set(keys)) < len(keys) or set(keys) & set(self.rows):
            try:
                load(self.db, self.table, *parts, text=text)
            except AlreadyPresent:
                return
            raise AssertionError("a key that occurs twice was loaded")
        assert load(self.db, self.table, *parts, text=text) == len(keys)
        self.rows.update({key: f"{text}{key}" for key in keys})

    @rule()
    def flush(self):
        self.db.flush()

    @rule()
    def reopen(self):
        self.db.close()
        self.begin(self.fs)

    @rule(keep=st.sampled_from([0.0, 0.5, 1.0]), seed=st.integers(0, 2**32))
    def crash(self, keep, seed):
        crashed = self.fs.crash(keep, random.Random(seed))
        self.db.close()
        self.begin(crashed)

    @rule(seed=st.integers(0, 2**32), how=st.sampled_from(["flip", "cut", "remove", "exchange"]))
    def damage_a_copy(self, seed, how):
        """A store of which one file was damaged since it was closed: right rows, or an error that names the file."""
        rng = random.Random(seed)
        self.db.close()
        copy, whole = self.fs.crash(1.0, rng), self.fs.crash(1.0, rng)
        self.begin(whole)
        paths = [path for path in files_below(copy, "db/tables") if copy.open(path).size]
        commits = files_below(copy, "db/commits") if copy.exists("db/commits") else []
        paths += [path for path in commits * 3 if path.endswith(".log") and copy.open(path).size]
        if not paths:
            return
        damaged = [rng.choice(paths) for _ in range(2 if how == "exchange" else 1)]
        spoil(copy, damaged, how, rng)
        report = check_store(copy, "db")
        try:
            with Database("db", fs=copy, background=False, **self.options) as db:
                assert read(db, db.table("t")) == sorted(self.rows.items()), (how, damaged)
        except CorruptionError as error:
            folders = [path.rpartition("/")[0] for path in damaged]
            assert any(place in str(error) for place in (*damaged, *folders)), (how, damaged, str(error))
            assert report.errors, (how, damaged, str(error))

    @rule(keys=KEYS)
    def make_and_drop_another_table(self, keys):
        other = self.db.create_table(definition("other", partitions=HASHED))
        insert(self.db, other, keys, op=Op.INSERT_IGNORE)
        self.db._maintenance.wake()
        self.db.drop_table("other")
        assert other.id not in self.fs.list("db/tables") or self.db._folders.dropped_count

    def begin(self, fs: CrashableFileSystem) -> None:
        self.fs, self.disk = fs, FaultyFileSystem(fs)
        self.generation += 1
        self.db = Database("db", fs=self.disk, **self.options)

    @rule(target=tokens, split_rows=st.sampled_from([None, 1]))
    def take_tokens(self, split_rows):
        tokens = self.db.scan_tokens(self.table, ScanSpec(("k", "v"), (), None, split_rows))
        return self.generation, self.db.now(), tokens, sorted(self.rows.items())

    @rule(taken=tokens)
    def read_old_tokens(self, taken):
        generation, moment, tokens, rows = taken
        if generation == self.generation:
            assert read_tokens(self.db, tokens) == rows
            assert read(self.db, self.table, snapshot=moment) == rows

    @rule(low=st.integers(0, 60), high=st.integers(0, 60))
    def read_range(self, low, high):
        expected = sorted((k, v) for k, v in self.rows.items() if low <= k <= high)
        assert read(self.db, self.table, predicates=(Range("k", low, high),)) == expected

    @invariant()
    def rows_are_the_models(self):
        assert read(self.db, self.table) == sorted(self.rows.items())

    def teardown(self):
        if hasattr(self, "db"):
            self.db.check()
            self.db.close()
            self.limited.__exit__(None, None, None)


TestStoreModel = StoreMachine.TestCase
TestStoreModel.settings = settings(max_examples=examples(40), stateful_step_count=25, deadline=None)
