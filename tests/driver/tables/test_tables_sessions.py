"""Write sessions: every flush mode beside a dict, errors, buffers, threads."""

from __future__ import annotations

import threading

import nyala
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import (
    AlreadyPresent,
    InvalidText,
    NotFound,
    NotNullViolation,
    NotSupportedError,
    RowsRefused,
    UnknownTable,
    WriteBufferFull,
)

TABLES = ["CREATE TABLE a (k INT PRIMARY KEY, v INT)", "CREATE TABLE b (k INT PRIMARY KEY, v INT)"]
OPS = ("insert", "insert_ignore", "upsert", "update", "update_ignore", "delete", "delete_ignore")
MODES = ("AUTO_FLUSH_SYNC", "AUTO_FLUSH_BACKGROUND", "MANUAL_FLUSH")


@pytest.fixture
def tables(connection):
    for text in TABLES:
        connection.execute(text)
    return connection


def content(connection, table):
    return dict(connection.execute(f"SELECT k, v FROM {table} ORDER BY k").fetchall())


def apply(model, op, key, value):
    """Applies an op to a dict; returns the class of the error if it is refused."""
    there = key in model
    if op == "insert" and there:
        return AlreadyPresent
    if op in ("update", "delete") and not there:
        return NotFound
    if op.startswith("delete"):
        model.pop(key, None)
    elif op == "upsert" or op.startswith("insert") != there:
        model[key] = value
    return None


STEPS = st.lists(
    st.tuples(
        st.sampled_from([*OPS, "flush"]),
        st.sampled_from("ab"),
        st.integers(0, 4),
        st.integers(0, 99),
        st.sampled_from(["tuple", "dict", "arrow"]),
    ),
    max_size=40,
)


@settings(max_examples=examples(60), deadline=None)
@given(STEPS, st.sampled_from(MODES), st.integers(150, 2000))
def test_sessions_do_what_was_asked_in_its_order(steps, mode, buffer_bytes):
    models = {"a": {}, "b": {}}
    expected, found = [], []
    with nyala.connect(":memory:", threads=1) as connection:
        for text in TABLES:
            connection.execute(text)
        session = connection.new_session(mode, buffer_bytes=buffer_bytes, flush_interval=0.002)

        def gather(call, *arguments):
            try:
                call(*arguments)
            except RowsRefused as error:
                if mode == "AUTO_FLUSH_SYNC":
                    found.extend(("", type(row.error)) for row in error.refused)
            found.extend((e.table, type(e.error)) for e in session.pending_errors().errors)

        for op, table, key, value, form in steps:
            if op == "flush":
                gather(session.flush)
                assert not session.has_pending
                continue
            row = (key,) if op.startswith("delete") else (key, value)
            if form == "dict":
                row = dict(zip("kv", row))
            elif form == "arrow":
                row = pa.table({name: [cell] for name, cell in zip("kv", row)})
            try:
                gather(getattr(session, op), table, row)
            except WriteBufferFull:
                assert mode == "MANUAL_FLUSH"
                gather(session.flush)
                getattr(session, op)(table, row)
            error = apply(models[table], op, key, value)
            if error is not None:
                expected.append(("" if mode == "AUTO_FLUSH_SYNC" else table, error))
        gather(session.close)
        assert {name: content(connection, name) for name in models} == models
    order = sorted if mode != "AUTO_FLUSH_SYNC" else list  # errors of two tables come table by table
    assert order(map(str, found)) == order(map(str, expected))


def test_a_manual_session_refuses_beyond_its_buffer_and_takes_all_or_nothing(tables):
    with tables.new_session("MANUAL_FLUSH", buffer_bytes=1000) as session:
        with pytest.raises(WriteBufferFull, match=r"not enough mutation buffer space remaining.* when 0 of 1000"):
            session.insert("a", [(k, k) for k in range(100)])
        assert not session.has_pending
        session.insert("a", [(k, k) for k in range(20)])
        with pytest.raises(WriteBufferFull):
            session.insert("a", [(k, k) for k in range(20, 30)])
        assert session.has_pending and content(tables, "a") == {}
        session.flush()
        assert not session.has_pending and len(content(tables, "a")) == 20


def test_the_background_writes_by_size_and_by_time(tables):
    done = threading.Event()
    with tables.new_session("AUTO_FLUSH_BACKGROUND", buffer_bytes=2000, flush_interval=1000) as session:
        session.insert("a", [(k, k) for k in range(30)])
        while len(content(tables, "a")) < 20:
            done.wait(0.01)
    with tables.new_session("AUTO_FLUSH_BACKGROUND", flush_interval=0.01) as session:
        session.insert("b", (1, 1))
        while session.has_pending:
            done.wait(0.01)
        assert content(tables, "b") == {1: 1}


def test_callers_wait_while_both_buffers_are_full(tables, monkeypatch):
    """The store blocks: a session buffers a bounded number of rows, and continues when the store does."""
    go_on, begun, store, taken = threading.Event(), threading.Event(), tables.store, []
    write = store.write
    monkeypatch.setattr(store, "write", lambda *given: go_on.wait() and write(*given))
    session = tables.new_session("AUTO_FLUSH_BACKGROUND", buffer_bytes=480, flush_interval=0.001)

    def fill():
        for key in range(100):
            session.insert("a", (key, key))
            taken.append(key)
            begun.set()

    thread = threading.Thread(target=fill)
    thread.start()
    begun.wait()
    thread.join(0.2)
    assert thread.is_alive() and len(taken) <= 20
    go_on.set()
    thread.join()
    session.close()
    assert len(content(tables, "a")) == 100


@pytest.mark.parametrize("mode", MODES)
def test_threads_share_a_session(tables, mode):
    session = tables.new_session(mode, flush_interval=0.005, **({} if mode[0] == "M" else {"buffer_bytes": 5000}))

    def work(number):
        for step in range(60):
            session.upsert("ab"[step % 2], (number, step))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    session.flush()
    assert content(tables, "a") == dict.fromkeys(range(4), 58)
    assert content(tables, "b") == dict.fromkeys(range(4), 59)
    session.close()


def test_errors_are_kept_up_to_a_limit(tables):
    session = tables.new_session("MANUAL_FLUSH", max_errors=3)
    session.insert("a", [(k % 2, k) for k in range(8)])
    with pytest.raises(RowsRefused, match=r"6 rows of the session were refused.*\n  INSERT a \{'k': 0, 'v': 2\}"):
        session.flush()
    errors, overflowed = session.pending_errors()
    assert overflowed and [(e.op.name, e.row["v"]) for e in errors] == [("INSERT", v) for v in (2, 3, 4)]
    assert not any(e.possibly_written for e in errors)
    assert session.pending_errors() == ((), False)
    session.close()
    assert content(tables, "a") == {0: 0, 1: 1}


def test_a_write_that_fails_is_an_error_of_its_rows(tables):
    session = tables.new_session("MANUAL_FLUSH")
    session.insert("a", [(1, 1), (2, 2)])
    session.insert("b", (1, 1))
    tables.execute("DROP TABLE a")
    with pytest.raises(UnknownTable, match="dropped"):
        session.flush()
    assert [(e.table, e.row["k"]) for e in session.pending_errors().errors] == [("a", 1), ("a", 2)]
    session.close()
    assert content(tables, "b") == {1: 1}


def test_what_is_no_row_is_refused_at_once(tables):
    with tables.new_session("MANUAL_FLUSH") as session:
        for row, error in [({"k": "x"}, InvalidText), ({"v": 1}, NotNullViolation), ((1,), nyala.InterfaceError)]:
            with pytest.raises(error):
                session.insert("a", row)
        assert not session.has_pending


@pytest.mark.parametrize("mode", MODES)
def test_the_end_of_a_session(tables, mode):
    with pytest.raises(KeyError), tables.new_session(mode) as session:
        session.insert("a", (1, 1))
        raise KeyError
    assert content(tables, "a") == {1: 1}
    session.close()
    for call in (session.flush, lambda: session.insert("a", (2, 2)), session.__enter__):
        with pytest.raises(nyala.InterfaceError, match="closed"):
            call()


def test_closing_the_connection_writes_what_its_sessions_have(tmp_path):
    connection = nyala.connect(tmp_path)
    connection.execute(TABLES[0])
    kept = [connection.new_session(mode, flush_interval=1000) for mode in MODES]
    for number, session in enumerate(kept):
        session.insert("a", (number, number))
    connection.close()
    with nyala.connect(tmp_path) as connection:
        assert content(connection, "a") == {0: 0, 1: 1, 2: 2}


@pytest.mark.parametrize(
    "options",
    [{"flush_mode": "AUTO"}, {"buffer_bytes": 0}, {"max_errors": -1}, {"flush_interval": 0}],
)
def test_options_that_cannot_be(tables, options):
    with pytest.raises(nyala.InterfaceError):
        tables.new_session(**options)
    with tables.at(tables.store.now()) as past, pytest.raises(NotSupportedError):
        past.new_session()
