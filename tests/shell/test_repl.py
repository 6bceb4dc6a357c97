"""The prompt's loop where a pseudo-terminal's timing would decide what is tested."""

import asyncio
import io
import signal

import nyala
import pytest
from nyala.errors import SerializationFailure
from nyala.shell import repl
from nyala.shell.shell import Shell


class Prompts:
    """A prompt that gives texts in turn, or raises them."""

    def __init__(self, *given):
        self.given = list(given)

    def prompt(self, **options):
        text = self.given.pop(0)
        if isinstance(text, BaseException):
            raise text
        return text


@pytest.fixture
def ctrl_c():
    """The handler of Ctrl-C that the tests' own process has, put back."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.parametrize("interrupted", [KeyboardInterrupt(), asyncio.CancelledError()])
def test_an_interrupted_prompt_comes_again(ctrl_c, monkeypatch, interrupted):
    prompts = Prompts(interrupted, "SELECT 6 * 7 AS answer;", EOFError())
    monkeypatch.setattr(repl, "_session", lambda shell, target: prompts)
    out = io.StringIO()
    with nyala.connect(":memory:") as connection:
        assert repl.interact(Shell(connection, out=out)) == 0
    assert "42" in out.getvalue()


def test_the_prompt_shows_a_transaction():
    with nyala.connect(":memory:") as connection:
        shell = Shell(connection, out=io.StringIO())
        assert repl.prompt(shell) == "nyala> "
        connection.execute("BEGIN")
        assert repl.prompt(shell) == "nyala*> "
        with pytest.raises(SerializationFailure), connection.session.transactions.turn(None):
            raise SerializationFailure("of a statement")
        assert repl.prompt(shell) == "nyala!> "
        connection.execute("ROLLBACK")
        assert repl.prompt(shell) == "nyala> "


def test_leaving_rolls_an_open_transaction_back(tmp_path):
    err = io.StringIO()
    with nyala.connect(tmp_path / "store") as connection:
        shell = Shell(connection, out=io.StringIO(), err=err)
        assert shell.run_lines(["CREATE TABLE t (k INT PRIMARY KEY); BEGIN; INSERT INTO t VALUES (1);"])
        shell.close()
        assert err.getvalue() == "the transaction in progress was rolled back: it had no COMMIT\n"
        assert connection.execute("SELECT * FROM t").fetchall() == []
