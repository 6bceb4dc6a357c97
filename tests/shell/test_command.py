"""The `nyala` command as a process: exit codes, what goes where, and a session at a pseudo-terminal."""

import csv
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time

import pytest

SCRIPT = "CREATE TABLE t (k INT PRIMARY KEY, v STRING); INSERT INTO t VALUES (1, 'one'), (2, NULL);"


def nyala(*arguments, stdin=""):
    command = [sys.executable, "-m", "nyala", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("shell") / "db"
    done = nyala("shell", path, "-c", SCRIPT)
    assert (done.returncode, done.stderr) == (0, "")
    return path


def test_c_prints_a_table(directory):
    done = nyala("shell", directory, "-c", "SELECT k, v FROM t ORDER BY k")
    assert done.stdout == "k | v\n--+-----\n1 | one\n2 | NULL\n(2 rows)\n".replace("+-----\n", "+-----\n")
    assert done.returncode == 0


def test_f_and_c_run_in_order(directory, tmp_path):
    file = tmp_path / "script.sql"
    file.write_text("SELECT 1 AS a;\nSELECT 2 AS b;\n")
    done = nyala("shell", directory, "-f", file, "-c", "SELECT 3 AS c", "--format", "csv")
    assert done.stdout == "a\n1\nb\n2\nc\n3\n"


def test_formats_can_be_parsed(directory):
    text = "SELECT * FROM t ORDER BY k"
    assert json.loads(nyala("shell", directory, "--format", "json", "-c", text).stdout) == [
        {"k": 1, "v": "one"},
        {"k": 2, "v": None},
    ]
    rows = list(csv.reader(io.StringIO(nyala("shell", directory, "--format", "csv", "-c", text).stdout)))
    assert rows == [["k", "v"], ["1", "one"], ["2", ""]]
    assert "| 1 | one |" in nyala("shell", directory, "--format", "markdown", "-c", text).stdout


def test_a_pipe_runs_statements_and_commands(directory):
    done = nyala("shell", directory, stdin="\\dt\nSELECT\n  count(*) AS n\nFROM t;\n")
    assert done.returncode == 0
    assert "table | rows | tablets" in done.stdout
    assert "(1 row)" in done.stdout


def test_the_first_error_ends_a_pipe(directory):
    done = nyala("shell", directory, stdin="SELECT 1 AS a;\nSELECT x\nFROM t;\nSELECT 2 AS never;\n")
    assert done.returncode == 1
    assert "a" in done.stdout
    assert "never" not in done.stdout
    assert "LINE 2: SELECT x" in done.stderr
    assert "Traceback" not in done.stderr


def test_mistakes_are_messages(directory, tmp_path):
    for arguments, message in (
        (("shell", directory, "-f", tmp_path / "missing.sql"), "cannot read"),
        (("shell", "nyala://host", "-c", "SELECT 1"), "there are no clusters yet"),
        (("tpch", "run", tmp_path / "nothing"), "holds no TPC-H tables"),
        (("tpch", "run", directory), "nyala tpch load --sf 1"),
    ):
        done = nyala(*arguments)
        assert done.returncode == 1
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_a_wrong_command_line_shows_the_usage():
    done = nyala("tpch", "load", "--sf", "-1", "x")
    assert done.returncode == 2
    assert "-1 is not above 0" in done.stderr
    assert nyala().returncode == 2


@pytest.mark.parametrize("command", [[], ["shell"], ["tpch"], ["tpch", "load"], ["tpch", "run"], ["bench", "load"]])
def test_help(command):
    done = nyala(*command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: nyala")


def test_version():
    assert nyala("--version").stdout.startswith("nyala 0.")


def test_without_a_directory_the_store_is_in_memory():
    assert nyala("shell", "-c", "SELECT 6 * 7 AS answer", "--format", "csv").stdout == "answer\n42\n"


class Terminal:
    """A shell at a pseudo-terminal, and what it has printed, without escape sequences."""

    def __init__(self, *arguments, **environment):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm", COLUMNS="100", LINES="40", PROMPT_TOOLKIT_NO_CPR="1", **environment)
            os.execv(sys.executable, [sys.executable, "-m", "nyala", "shell", *map(str, arguments)])
        self.text = ""

    def wait_for(self, pattern, seconds=20.0):
        """Read until the pattern has been printed since the last call; what was printed up to then."""
        deadline = time.monotonic() + seconds
        while (match := re.search(pattern, self.text)) is None:
            if not self._read(deadline):
                raise AssertionError(f"{pattern!r} did not appear in {self.text!r}")
        seen, self.text = self.text[: match.end()], self.text[match.end() :]
        return seen

    def _read(self, deadline):
        """Read what is there; False at the end of the shell, or of the time."""
        ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
        try:
            data = os.read(self.master, 65536).decode(errors="replace") if ready else ""
        except OSError:
            return False
        self.text += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r", "", data)
        return bool(data)

    def type(self, text):
        """Press keys at the prompt; before it appears, the terminal itself would take them."""
        self.wait_for(r"(nyala|\.\.\.)>")
        os.write(self.master, text.encode())

    def press(self, text):
        """Press keys while a statement runs."""
        os.write(self.master, text.encode())

    def wait_until_running(self, seconds=20.0):
        """Return when the prompt has given the terminal back, so that Ctrl-C is a signal again and no key."""
        deadline = time.monotonic() + seconds
        while not termios.tcgetattr(self.master)[3] & termios.ISIG:
            assert time.monotonic() < deadline, "the prompt kept the terminal"
            self._read(time.monotonic() + 0.05)

    def end(self, seconds=20.0):
        """Wait for the shell to end; its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(deadline):
            pass
        return self.kill(time.monotonic() >= deadline)

    def kill(self, now=True):
        """Collect the shell, killed first where it has not ended; its exit code. May be repeated."""
        if self.master >= 0:
            if now:
                os.kill(self.pid, signal.SIGKILL)
            _, self.status = os.waitpid(self.pid, 0)
            os.close(self.master)
            self.master = -1
        return os.waitstatus_to_exitcode(self.status)


@pytest.fixture
def terminal(directory, tmp_path):
    terminal = Terminal(directory, NYALA_HISTORY=str(tmp_path / "history"))
    yield terminal
    terminal.kill()


def test_a_session_at_a_terminal(terminal, tmp_path):
    terminal.type("SELECT k,\r")
    terminal.type("v FROM t WHERE k = 1;\r")
    output = terminal.wait_for(r"\(1 row\)\nTime: [0-9.]+ ms\n")
    assert "1 | one" in output
    terminal.type("SELECT oops FROM t;\r")
    terminal.wait_for(r"error: .*oops.*\nLINE 1: SELECT oops FROM t\n +\^\^\^\^")
    terminal.type("\\d t\r")
    assert "NOT NULL" in terminal.wait_for(r"PRIMARY KEY \(k\)\n")
    terminal.type("SELECT unfinished\x03")
    terminal.type("SEL\t")
    terminal.wait_for("SELECT")
    terminal.press("\x03")
    terminal.type("\\q\r")
    assert terminal.end() == 0
    history = (tmp_path / "history").read_text()
    assert "SELECT k," in history
    assert "\\d t" in history


def test_ctrl_c_cancels_a_statement_and_ctrl_d_leaves(terminal):
    terminal.type("CREATE TABLE IF NOT EXISTS n (k INT PRIMARY KEY);\r")
    terminal.wait_for("OK")
    terminal.type("INSERT INTO n VALUES " + ", ".join(f"({i})" for i in range(300)) + ";\r")
    terminal.wait_for("OK, 300 rows")
    terminal.type("SELECT count(*) FROM n a, n b, n c, n d WHERE a.k + b.k + c.k + d.k = -1;\r")
    terminal.wait_for("= -1;")
    terminal.wait_until_running()
    terminal.press("\x03")
    terminal.wait_for("cancelled")
    terminal.type("SELECT 6 * 7 AS answer;\r")
    terminal.wait_for(r"42\n\(1 row\)")
    terminal.type("\x04")
    assert terminal.end() == 0
