"""Sessions at a pseudo-terminal, as a user has them."""

import re
import stat
import subprocess
import sys

import nyala
import pytest
from terminal_support import Terminal

pytestmark = pytest.mark.slow

ENDLESS = "SELECT count(*) FROM n a, n b, n c, n d WHERE a.k + b.k + c.k + d.k = -1;"
"""Some billions of pairs of rows."""
BAR = r"\[[#-]+\] +\d+ %  .* rows, .* s"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("terminal") / "db"
    with nyala.connect(path, durability="os") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
        connection.execute("INSERT INTO t VALUES (1, 'one'), (2, NULL)")
        connection.execute("CREATE TABLE n (k INT PRIMARY KEY)")
        connection.executemany("INSERT INTO n VALUES (?)", [(i,) for i in range(300)])
    return path


@pytest.fixture
def start(directory, tmp_path):
    """Starts shells; each test has a history and a home of its own."""
    started = []

    def start(*arguments, **environment):
        own = {"NYALA_HISTORY": str(tmp_path / "history"), "HOME": str(tmp_path), "PAGER": ""}
        started.append(Terminal(directory, *arguments, **{**own, **environment}))
        return started[-1]

    yield start
    for terminal in started:
        terminal.kill()


@pytest.fixture
def terminal(start):
    return start()


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


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
    terminal.type(ENDLESS + "\r")
    terminal.wait_to_see(BAR)
    terminal.press("\x03")
    terminal.wait_for("cancelled")
    terminal.type("SELECT 6 * 7 AS answer;\r")
    terminal.wait_for(r"42\n\(1 row\)")
    terminal.type("\x04")
    assert terminal.end() == 0


def test_a_long_statement_has_a_progress_bar_that_is_gone_afterwards(terminal):
    terminal.type(ENDLESS + "\r")
    terminal.wait_to_see(BAR)
    terminal.press("\x03")
    terminal.wait_to_see("cancelled")
    assert "rows," not in terminal.seen


def test_tab_opens_a_menu_and_enter_takes_from_it(terminal):
    terminal.wait_to_see("nyala>")
    terminal.press("SELECT * FROM \t")
    lines = terminal.wait_to_see(r"\bt +table")
    assert any(line.strip().startswith("n ") and line.endswith("table") for line in lines)
    terminal.press("\t\t\r")
    terminal.wait_to_see(r"SELECT \* FROM t\n")
    terminal.press(" ORDER BY k;\r")
    terminal.wait_to_see(r"2 \| NULL\n\(2 rows\)")


def test_history_is_searched_and_suggested_in_the_next_session(start):
    first = start()
    first.type("SELECT 'needle' AS hay;\r")
    first.wait_for(r"\(1 row\)")
    first.type("SELECT 2 AS two;\r")
    first.wait_for(r"\(1 row\)")
    first.type("\x04")
    assert first.end() == 0
    second = start()
    second.wait_to_see("nyala>")
    second.press("\x12needle")
    second.wait_to_see("nyala> SELECT 'needle' AS hay;")
    second.press("\r")
    second.press("\r")
    second.wait_to_see(r"\nneedle\n\(1 row\)")
    second.press("SELECT 2")
    second.wait_to_see("nyala> SELECT 2 AS two;")
    second.press("\x1b[C")
    second.press("\r")
    second.wait_to_see(r"\n  2\n\(1 row\)")


def test_e_puts_what_the_editor_made_at_the_prompt(start, tmp_path):
    terminal = start(EDITOR=script(tmp_path / "editor", "sed -i s/first/second/ $1\n"))
    terminal.type("SELECT 'first' AS place;\r")
    terminal.wait_for(r"\nfirst\n")
    terminal.type("\\e\r")
    terminal.wait_to_see("nyala> SELECT 'second' AS place;")
    terminal.press("\r")
    terminal.wait_to_see(r"\nsecond\n\(1 row\)")
    terminal.press("SELECT\r'first' AS again;\x1b[D\x1b[C\r")
    terminal.wait_to_see(r"again\n-+\nfirst")
    terminal.press("SELECT\r'first' AS third\r\\e\r")
    terminal.wait_to_see(r"nyala> SELECT\n +\.\.\.> 'second' AS third")


def test_watch_ends_with_ctrl_c(terminal):
    terminal.type("SELECT count(*) AS n FROM t;\r")
    terminal.wait_for(r"\(1 row\)")
    terminal.type("\\watch 0.05\r")
    for _ in range(3):
        terminal.wait_for(r"every 0\.05 s")
        terminal.wait_for(r"\(1 row\)")
    terminal.press("\x03")
    terminal.wait_for("ended")
    terminal.type("SELECT 6 * 7 AS answer;\r")
    terminal.wait_for(r"42\n\(1 row\)")


def test_asof_is_on_the_status_bar_until_it_is_off(start):
    terminal = start()
    terminal.type("\\asof now()\r")
    terminal.wait_to_see(r"as of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.0-9]* UTC *$")
    terminal.type("SELECT count(*) AS n FROM n;\r")
    terminal.wait_for(r"300\n")
    terminal.type("INSERT INTO n VALUES (1000);\r")
    terminal.wait_for("changes nothing")
    terminal.type("\\asof 2020-01-01\r")
    terminal.type("SELECT count(*) AS n FROM n;\r")
    terminal.wait_for(r"n\n-\n0\n")
    terminal.type("\\asof off\r")
    terminal.wait_for("as they are now")
    terminal.type("SELECT count(*) AS n FROM n;\r")
    terminal.wait_for(r"300\n")


def test_long_and_wide_results_go_through_the_pager_and_others_do_not(start, tmp_path):
    terminal = start(PAGER=script(tmp_path / "pager", "echo PAGER BEGINS; tail -n 1; echo PAGER ENDS\n"))
    terminal.type("SELECT * FROM t;\r")
    assert "PAGER" not in terminal.wait_for(r"\(2 rows\)")
    terminal.type("SELECT * FROM n ORDER BY k;\r")
    assert "\n299\n" in terminal.wait_for(r"PAGER BEGINS\n.*\nPAGER ENDS\n\(300 rows\)")
    terminal.type("SELECT repeat('wide', 100) AS w;\r")
    terminal.wait_for(r"PAGER BEGINS\n(wide)+\nPAGER ENDS\n\(1 row\)")
    terminal.type("\\pager off\r")
    terminal.type("SELECT repeat('wide', 100) AS w;\r")
    terminal.wait_for(r"widewide[wid]*…\n\(1 row\)\n\(wider than the screen")


def test_a_reader_may_leave_the_pager_early(start, tmp_path):
    terminal = start(PAGER=script(tmp_path / "pager", "head -n 1\n"))
    terminal.type("SELECT a.k, b.k, repeat('x', 100) FROM n a, n b;\r")
    terminal.wait_for(r"\(left before the end\)")
    terminal.type("SELECT 6 * 7 AS answer;\r")
    terminal.wait_for(r"42\n\(1 row\)")


def test_a_terminal_gets_the_first_rows(terminal):
    terminal.type("\\rows 2\r")
    terminal.type("SELECT k FROM n ORDER BY k;\r")
    terminal.wait_for(r"k\n-+\n *0\n *1\n\(the first 2 rows; \\o FILE or --output writes them all")
    terminal.type("SELECT k FROM t;\r")
    terminal.wait_for(r"\(2 rows\)")


def test_wide_rows_turn_into_lines_by_themselves(terminal):
    terminal.type("\\x auto\r")
    terminal.type("SELECT repeat('a', 60) AS a, repeat('b', 60) AS b;\r")
    terminal.wait_for(r"-\[ row 1 \]-+\na \| a+\nb \| b+\n\(1 row\)")
    terminal.type("SELECT 1 AS a, 2 AS b;\r")
    terminal.wait_for(r"a \| b\n--\+--\n1 \| 2\n\(1 row\)")


def test_the_rc_file_runs_at_the_start_unless_it_is_refused(start, tmp_path):
    (tmp_path / ".nyalarc").write_text("\\timing off\n\\format csv\n")
    terminal = start()
    terminal.type("SELECT 1 AS a;\r")
    terminal.wait_for(r"a\n1\n")
    terminal.type("\x04")
    assert terminal.end() == 0
    terminal = start("--no-rc")
    terminal.type("SELECT 1 AS a;\r")
    terminal.wait_for(r"a\n-\n1\n\(1 row\)\nTime")


COUNT = "import sys, nyala; print(nyala.connect(sys.argv[1]).execute('SELECT count(*) FROM t').fetchone()[0])"


def run(*arguments):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_a_session_at_a_terminal_lets_scripts_into_its_directory(terminal, directory):
    terminal.wait_for("Other processes .* can connect to the directory")
    terminal.type("\\serve\r")
    url = re.search(r"nyala://127.0.0.1:\d+", terminal.wait_for(r'nyala.connect\("nyala://[^"]+"\)'))[0]
    for target in (directory, url):
        assert run("-c", COUNT, target) == (0, "2\n", "")
    assert run("-m", "nyala", "shell", directory, "-c", "SELECT 1 AS a", "--format", "csv") == (0, "a\n1\n", "")
    terminal.type("\\q\r")
    assert terminal.end() == 0
    assert run("-c", COUNT, directory) == (0, "2\n", "")


def test_a_session_that_was_told_so_keeps_its_directory_until_serve(start, directory):
    terminal = start("--no-serve")
    terminal.type("SELECT 1 AS a;\r")
    assert "Other processes" not in terminal.wait_for(r"\(1 row\)")
    code, _, message = run("-m", "nyala", "shell", directory, "-c", "SELECT 1")
    assert code == 1
    assert "\\serve" in message and "`nyala serve DIR`" in message and "--no-serve" in message
    assert "Connection" not in message and "driver" not in message
    terminal.type("\\serve\r")
    terminal.wait_for(r'reach this store by\n  nyala.connect\("/.*"\)\n  nyala.connect\("nyala://')
    assert run("-c", COUNT, directory) == (0, "2\n", "")
