"""The command line as a front door: every help is whole, examples are right, mistakes are met with a guess."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import nyala
import pytest
from nyala.__main__ import main
from nyala.cli.commands.all_commands import nyala_parser
from nyala.command_line import Parser, find_handler
from nyala.tpch.peers import PEERS


def parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    steps = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return [parser, *(p for step in steps for command in step.choices.values() for p in parsers(command))]


ALL = parsers(nyala_parser())
COMMANDS = [parser for parser in ALL if "run" in parser._defaults]


def prog(parser):
    return parser.prog


@pytest.mark.parametrize("parser", ALL, ids=prog)
def test_help_says_what_it_is_shows_an_example_and_explains_each_option(parser, capsys):
    with pytest.raises(SystemExit) as end:
        main([*parser.prog.split()[1:], "--help"])
    assert end.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert parser.description and " ".join(parser.description.split())[:40] in text
    assert isinstance(parser, Parser) and parser.examples and "examples:" in text
    for action in parser._actions:
        named = [*action.option_strings, *([action.metavar] if action.metavar else [])]
        assert all(name in text for name in named)
        if not isinstance(action, argparse._SubParsersAction):
            assert action.help, f"{parser.prog} says nothing of {named}"


@pytest.mark.parametrize("parser", ALL, ids=prog)
def test_examples_are_commands(parser):
    for example in parser.examples:
        words = shlex.split(example.partition(" > ")[0])
        assert " ".join(words).startswith(parser.prog)
        nyala_parser().parse_args(words[1:])


def test_every_handler_is_a_function():
    for parser in COMMANDS:
        assert callable(find_handler(parser._defaults["run"])), parser.prog


HELP_TEXTS = Path(__file__).parent / "shell" / "golden_help" / "help.txt"


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="argparse lays options out differently")
def test_help_texts_are_those_of_the_golden_script(golden, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "100")

    def run(command):
        with pytest.raises(SystemExit):
            main(command.split()[1:])
        return capsys.readouterr().out

    golden(HELP_TEXTS, run)
    text = HELP_TEXTS.read_text(encoding="utf-8")
    assert all(f"\n{parser.prog} --help\n---\n" in text for parser in ALL)


@pytest.mark.parametrize("parser", COMMANDS, ids=prog)
def test_commands_are_listed_where_they_belong(parser):
    above = next(p for p in ALL if p.prog == parser.prog.rpartition(" ")[0])
    assert f"\n    {parser.prog.split()[-1]}" in above.format_help()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("shel", "there is no 'shel'; did you mean shell?"),
        ("fs chek DIR", "there is no 'chek'; did you mean check?"),
        ("frobnicate", "there is no 'frobnicate'; there are "),
        ("fs layout DIR TABLE --jsn", "there is no option --jsn; did you mean --json?"),
        ("fs check DIR other", "unexpected argument 'other'"),
        ("shell --format xml", "there is no 'xml'; there are "),
        ("tpch load DIR --sf 0", "0 is not above 0"),
        ("completion tcsh", "there is no 'tcsh'; "),
        ("fs", "the following arguments are required: COMMAND"),
    ],
)
def test_wrong_usage_is_2_with_a_guess(line, message, capsys):
    with pytest.raises(SystemExit) as end:
        main(line.split())
    assert end.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("cluster start demo", {"directory": "demo"}),
        ("cluster start --tservers 3 --dir demo", {"directory": "demo", "tservers": 3}),
        ("cluster leave demo --wait tserver-2", {"cluster": "demo", "server": "tserver-2", "wait": True}),
        ("cluster leave tserver-2 --wait --dir=demo", {"cluster": "demo", "server": "tserver-2", "wait": True}),
        ("tablet list --dir demo", {"cluster": "demo", "table": None}),
        ("tablet list --dir demo t", {"cluster": "demo", "table": "t"}),
    ],
)
def test_a_clusters_directory_may_stand_in_front_or_be_an_option(line, values):
    found = vars(nyala_parser().parse_args(line.split()))
    assert {name: found[name] if name != "directory" else str(found[name]) for name in values} == values


def test_nyala_alone_prints_the_help(capsys):
    assert main([]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "examples:" in shown.err and "run SQL" in shown.err and "usage: nyala" in shown.err


def test_peers_of_compare_are_all_named(capsys):
    with pytest.raises(SystemExit):
        main(["tpch", "compare", "--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in PEERS)


@pytest.mark.parametrize("parser", ALL, ids=prog)
def test_no_help_sends_the_reader_elsewhere_for_a_default(parser):
    for action in parser._actions:
        assert "as of `nyala" not in (action.help or "")


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert (end.value.code, capsys.readouterr().out) == (0, f"nyala {nyala.__version__}\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_know_every_command_and_their_shell_reads_them(shell, capsys):
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for parser in COMMANDS:
        assert parser.prog.split()[-1] in script
    assert "keep-going" in script
    if program := shutil.which(shell):
        read = subprocess.run([program, "-n"], input=script, capture_output=True, text=True, timeout=60, check=False)
        assert (read.returncode, read.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="wants bash")
@pytest.mark.parametrize(
    ("words", "answers"),
    [
        (["nyala", "f"], {"fs"}),
        (["nyala", "fs", ""], {"check", "copy", "cut-log", "dump", "layout", "salvage"}),
        (["nyala", "fs", "layout", "--"], {"--help", "--json", "--svg"}),
        (["nyala", "shell", "--format", "p"], {"parquet"}),
    ],
)
def test_bash_completes(words, answers, tmp_path, capsys):
    pytest.importorskip("shtab")
    main(["completion", "bash"])
    asked = f"COMP_WORDS=({' '.join(shlex.quote(w) for w in words)}); COMP_CWORD={len(words) - 1}"
    call = "f=$(complete -p nyala | sed 's/.*-F \\([^ ]*\\).*/\\1/'); $f; printf '%s\\n' \"${COMPREPLY[@]}\""
    script = tmp_path / "ask.bash"
    script.write_text(f"{capsys.readouterr().out}\n{asked}\n{call}\n")
    done = subprocess.run(["bash", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert set(done.stdout.split()) - {"-h"} == answers, done.stderr


def test_completion_without_shtab_says_how_to_get_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert "pip install 'nyala[completion]'" in capsys.readouterr().err


def test_help_imports_neither_the_store_nor_what_completes():
    program = "import sys, nyala.__main__ as m; m.nyala_parser(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert {"shtab", "prompt_toolkit", "sqlglot", "numpy", "pyarrow"}.isdisjoint(done.stdout.split())


def test_layout_as_json(tmp_path, capsys):
    with nyala.connect(tmp_path / "db") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY) DISTRIBUTE BY HASH INTO 2 BUCKETS")
        connection.execute("INSERT INTO t SELECT n FROM generate_series(1, 100) AS g(n)")
        connection.execute("COMPACT TABLE t")
    assert main(["fs", "layout", str(tmp_path / "db"), "t", "--json"]) == 0
    layout = json.loads(capsys.readouterr().out)
    assert (layout["name"], layout["key"], layout["average_height"]) == ("t", ["k"], 1.0)
    assert sum(rowset["rows"] for tablet in layout["tablets"] for rowset in tablet["rowsets"]) == 100


def test_benchmarks_need_a_checkout(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    assert main(["bench", "q6", "DIR"]) == 1
    assert 'pip install -e ".[bench,tpch]"' in capsys.readouterr().err
