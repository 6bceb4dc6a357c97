"""The `nyala` command.

    nyala shell [TARGET]                  SQL, interactive or from -c, -f or a pipe
    nyala fs check|dump|layout ...        look at a store's files from outside
    nyala serve DIR                       a store's directory, for several processes at once
    nyala cluster start --dir DIR         a cluster of processes on this machine; stop, status, ksck, rebalance, leave
    nyala cluster certificates DIR ...    a CA and certificates, for clusters with TLS
    nyala tablet list|move ...            where a cluster's tablets are
    nyala master|tserver --dir DIR        run one server of a cluster
    nyala spark ingest|export|backup ...  pipelines on Spark: files into tables and out of them, backups
    nyala tpch load --sf N DIR            generate and load TPC-H
    nyala tpch run DIR [--check]          run the 22 queries, check the answers
    nyala tpch compare DIR                the same beside DuckDB, DataFusion, Spark, as ratios
    nyala bench load|storage|q6|tpch ...  loads, scans and queries beside DuckDB and Parquet
    nyala bench points [DIR]              single rows beside SQLite and DuckDB
    nyala bench driver                    statements through PEP 249 beside SQLite and DuckDB
    nyala bench ycsb                      YCSB's workloads beside SQLite, DuckDB, PostgreSQL, RocksDB
    nyala bench lineitem                  the Kudu paper's queries beside Parquet, DuckDB, PostgreSQL, SQLite
    nyala bench cluster [DIR]             a cluster of three servers beside the embedded store
    nyala bench spark DIR                 Spark over a store beside Spark on Parquet
    nyala bench plan DIR                  what statements cost before they run
    nyala bench maintenance               hours of background work, simulated
    nyala bench mixed                     upserts while queries run, beside DuckDB and PostgreSQL
    nyala bench all --out DIR             all of them, and a report as a page of HTML
    nyala completion bash|zsh|fish        what makes Tab complete all this in a shell

A mistake of the user's is one message on standard error and exit code 1; a wrong command line is exit code 2.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from .cli.bench_command import add_bench
from .cli.cluster_parsers import add_client_tls, add_cluster_commands, directory_first
from .cli.spark_parsers import add_spark_commands
from .errors import Error, StoreLocked, did_you_mean
from .model.disk_errors import disk_error
from .model.version import __version__
from .tpch.arguments import add_threads, add_tpch_commands, natural

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
"""As shells report an end by Ctrl-C."""

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


class Parser(argparse.ArgumentParser):
    """A parser whose help ends with `examples`, and that guesses what a misspelt command or option was meant to be."""

    examples: Sequence[str] = ()
    takes_directory = False
    """May the first argument be given as `--dir` as well?"""

    def format_help(self) -> str:
        lines = "".join(f"  $ {example}\n" for example in self.examples)
        return super().format_help() + (f"\nexamples:\n{lines}" if lines else "")

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        if self.takes_directory:
            args = directory_first(args)
        # A command's own parser comes by here too, so it says what is wrong, with its own usage and options.
        known, unknown = super().parse_known_args(args, namespace)
        if unknown and unknown[0].startswith("-"):
            option = unknown[0].partition("=")[0]
            self.error(f"there is no option {option}{did_you_mean(option, self._option_string_actions)}")
        if unknown:
            self.error(f"unexpected argument {unknown[0]!r}")
        return known, unknown

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(action, f"there is no {value!r}{did_you_mean(str(value), known)}")


# The handlers import what they need themselves, so that `nyala --help` answers at once.


def _shell(arguments: argparse.Namespace) -> int:
    from .cli.shell_command import main as run

    return run(arguments)


def _spark_tpch_etl(arguments: argparse.Namespace) -> int:
    from .cli.spark_command import run_pipeline
    from .tpch.etl import etl_pipeline

    return run_pipeline(arguments, etl_pipeline(arguments))


def _fs_check(arguments: argparse.Namespace) -> int:
    from .cli.fs_command import check_command

    return check_command(arguments)


def _fs_dump(arguments: argparse.Namespace) -> int:
    from .cli.fs_command import dump_command

    return dump_command(arguments)


def _fs_layout(arguments: argparse.Namespace) -> int:
    from .cli.fs_command import layout_command

    return layout_command(arguments)


def _fs_salvage(arguments: argparse.Namespace) -> int:
    from .cli.fs_command import salvage_command

    return salvage_command(arguments)


def _fs_cut_log(arguments: argparse.Namespace) -> int:
    from .cli.fs_command import cut_log_command

    return cut_log_command(arguments)


def _completion(arguments: argparse.Namespace) -> int:
    from .cli.completion_scripts import completion_script

    print(completion_script(build_parser(), arguments.shell))
    return 0


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(
        prog="nyala", description="A columnar SQL store in a directory. Each command has a --help of its own."
    )
    parser.examples = ("nyala shell weather", "nyala fs check weather", "nyala tpch load --sf 0.1 demo")
    parser.add_argument("--version", action="version", version=f"nyala {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_shell(commands)
    _add_fs(commands)
    add_cluster_commands(commands)
    add_spark_commands(commands, _spark_tpch_etl)
    add_tpch_commands(commands)
    add_bench(commands)
    _add_completion(commands)
    return parser


def _add_shell(commands: Commands) -> None:
    parser = commands.add_parser(
        "shell",
        help="run SQL",
        description="Run SQL: at a terminal interactively, else from -c, -f or standard input. "
        "Outside a terminal the first error ends the run with exit code 1.",
    )
    parser.add_argument(
        "target", nargs="?", metavar="TARGET", help="a store's directory, :memory: (the default), or nyala://HOST:PORT"
    )
    parser.add_argument("-c", "--command", action="append", metavar="SQL", help="run this and leave (may be repeated)")
    parser.add_argument(
        "-f", "--file", action="append", type=Path, metavar="FILE", help="run this file and leave (may be repeated)"
    )
    formats = ("table", "csv", "json", "markdown", "vertical", "parquet")
    parser.add_argument("--format", choices=formats, help="default: table, or as the name of --output ends")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write results to this file")
    parser.add_argument("--keep-going", action="store_true", help="go on behind an error; the exit code tells of it")
    parser.add_argument("--no-rc", action="store_true", help="do not run ~/.nyalarc at the start of a session")
    parser.add_argument(
        "--no-serve",
        action="store_true",
        help="do not let other processes reach the store while a session at a terminal has it open",
    )
    parser.add_argument("--timing", action="store_true", help="print how long each statement takes")
    parser.add_argument("--engine", metavar="NAME", help="what runs queries: nyala (the default), or spark")
    add_threads(parser)
    add_client_tls(parser)
    parser.examples = (
        "nyala shell weather",
        'nyala shell weather -c "SELECT count(*) FROM readings" --format json',
        'nyala shell weather --output rain.parquet -c "SELECT * FROM readings"',
    )
    parser.set_defaults(run=_shell)


def _add_fs(commands: Commands) -> None:
    fs = commands.add_parser(
        "fs",
        help="look at a store's files, and save what is left of damaged ones",
        description="Look at a store's files. Nothing is changed but by cut-log.",
    )
    fs.examples = ("nyala fs check weather", "nyala fs layout weather readings")
    steps = fs.add_subparsers(title="commands", metavar="COMMAND", required=True)

    check = steps.add_parser(
        "check",
        help="verify every file of a store",
        description="Verify every checksum and cross-reference of a store that nobody has open. Changes nothing. "
        "Exit code 1 if anything is wrong; notes are harmless.",
    )
    check.add_argument("directory", type=Path, metavar="DIR", help="the store's directory")
    check.add_argument("--json", action="store_true", help="print the findings as JSON")
    check.examples = ("nyala fs check weather", "nyala fs check weather --json")
    check.set_defaults(run=_fs_check)

    dump = steps.add_parser("dump", help="show what a file holds", description="Show what one file of a store holds.")
    dump.add_argument("file", type=Path, metavar="FILE", help="a column file, Bloom filter, log segment, catalog, ...")
    dump.add_argument("--rows", type=natural, default=10, metavar="N", help="rows to show (default 10)")
    dump.examples = ("nyala fs dump weather/catalog", "nyala fs dump weather/tables/t000001/t000001-p0000/metadata")
    dump.set_defaults(run=_fs_dump)

    layout = steps.add_parser(
        "layout",
        help="show how a table's rowsets lie",
        description="Show the rowsets of each tablet over its keys, and how many of them a random key may be in.",
    )
    layout.add_argument("directory", type=Path, metavar="DIR", help="the store's directory; it may be open")
    layout.add_argument("table", metavar="TABLE", help="a table of the store")
    layout.add_argument("--json", action="store_true", help="print the layout as JSON")
    layout.add_argument("--svg", type=Path, metavar="FILE", help="draw it here as well")
    layout.examples = ("nyala fs layout weather readings", "nyala fs layout weather readings --svg readings.svg")
    layout.set_defaults(run=_fs_layout)

    salvage = steps.add_parser(
        "salvage",
        help="save the rows of a damaged table to Parquet",
        description="Write the rows that can be read of a table whose files are damaged, and say what is lost. The "
        "store must not be open; nothing of it is changed. Exit code 1 if anything is lost.",
    )
    salvage.add_argument("directory", type=Path, metavar="DIR", help="the store's directory")
    salvage.add_argument("table", metavar="TABLE", help="a table of the store")
    salvage.add_argument("file", type=Path, metavar="FILE", help="the Parquet file to write")
    salvage.examples = ("nyala fs salvage weather readings readings.parquet",)
    salvage.set_defaults(run=_fs_salvage)

    cut = steps.add_parser(
        "cut-log",
        help="give up what is behind a damaged log entry",
        description="Cut the log of one tablet at its first damaged entry, so that the tablet opens again. "
        "ACKNOWLEDGED WRITES ARE GIVEN UP. What is cut off is kept beside the log.",
    )
    cut.add_argument("directory", type=Path, metavar="DIR", help="the store's directory")
    cut.add_argument("tablet", metavar="TABLET", help="a tablet's id, as errors and fs check name it")
    cut.add_argument(
        "--lose-acknowledged-writes", action="store_true", help="really: without it, nothing is done but a warning"
    )
    cut.examples = ("nyala fs cut-log weather t000001-p0000 --lose-acknowledged-writes",)
    cut.set_defaults(run=_fs_cut_log)


def _add_completion(commands: Commands) -> None:
    parser = commands.add_parser(
        "completion",
        help="make Tab complete this command",
        description="Print the script that makes a shell complete `nyala`, its commands, options and files "
        "(needs shtab: pip install 'nyala[completion]').",
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")
    parser.examples = (
        "nyala completion bash > ~/.local/share/bash-completion/completions/nyala",
        "nyala completion zsh > ~/.zfunc/_nyala",
        "nyala completion fish > ~/.config/fish/completions/nyala.fish",
    )
    parser.set_defaults(run=_completion)


_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""What writing to standard output may meet; such an error names no file."""


def _message(error: Error) -> str:
    if not isinstance(error, StoreLocked):
        return str(error)
    from .shell.serving import message_of

    return message_of(error)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    parser = build_parser()
    if not (sys.argv[1:] if argv is None else argv):
        # As git does: the help, and the exit code of a wrong command line, so that a script notices.
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    arguments = parser.parse_args(argv)
    handler: Callable[[argparse.Namespace], int] = arguments.run
    if sys.stdout is None:  # closed by whoever started this process
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    try:
        code = handler(arguments)
        sys.stdout.flush()  # at the interpreter's exit, an error would be a traceback
        return code
    except Error as error:
        return _failed(_message(error))
    except BrokenPipeError:
        # The reader of the output has left (`| head`), and expects no message.
        _discard_output()
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except OSError as error:
        if error.filename is not None or error.errno not in _OUTPUT_ERRORS:
            raise
        _discard_output()
        return _failed(str(disk_error("cannot write to standard output", error)))


def _failed(message: str) -> int:
    with contextlib.suppress(OSError):  # standard error is on a full disk, too
        print(f"nyala: error: {message}", file=sys.stderr)
    return EXIT_ERROR


def _discard_output() -> None:
    """Keep Python from flushing what is left of standard output at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
