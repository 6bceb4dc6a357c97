"""`nyala` and all of its commands."""

from __future__ import annotations

from pathlib import Path

from ...command_line import Command, Parser, argument, build_parser, threads
from ...model.version import __version__
from ...tpch.arguments import TPCH
from .backup import BACKUP, RESTORE
from .bench import bench_command
from .clusters import CLUSTER, TABLET
from .common import CLIENT_TLS
from .diagnose import DIAGNOSE
from .fs import FS
from .replicas import REPLICA
from .servers import GATEWAY, MASTER, SERVE, TSERVER
from .spark import SPARK

_SHELL = Command(
    "shell",
    "run SQL",
    "Run SQL: at a terminal interactively, else from -c, -f or standard input. "
    "Outside a terminal the first error ends the run with exit code 1.",
    handler="cli.shell_command:main",
    arguments=(
        argument(
            "target",
            nargs="?",
            metavar="TARGET",
            help="a store's directory, :memory: (the default), or nyala://HOST:PORT",
        ),
        argument("-c", "--command", action="append", metavar="SQL", help="run this and exit (may be repeated)"),
        argument(
            "-f", "--file", action="append", type=Path, metavar="FILE", help="run this file and exit (may be repeated)"
        ),
        argument(
            "--format",
            choices=("table", "csv", "json", "markdown", "vertical", "parquet"),
            help="default: table, or by the suffix of --output",
        ),
        argument("--output", type=Path, metavar="FILE", help="write results to this file"),
        argument("--keep-going", action="store_true", help="continue after an error; the exit code is still 1"),
        argument("--no-rc", action="store_true", help="do not run ~/.nyalarc at the start of a session"),
        argument(
            "--no-serve",
            action="store_true",
            help="do not serve the store to other processes during a session at a terminal",
        ),
        argument("--timing", action="store_true", help="print the time of each statement"),
        argument("--engine", metavar="NAME", help="engine of queries: nyala (the default), or spark"),
        threads(),
        *CLIENT_TLS,
    ),
    examples=(
        "nyala shell weather",
        'nyala shell weather -c "SELECT count(*) FROM readings" --format json',
        'nyala shell weather --output rain.parquet -c "SELECT * FROM readings"',
    ),
)

_COMPLETION = Command(
    "completion",
    "print a completion script",
    "Print the script with which a shell completes `nyala`, its commands, options and files "
    "(needs shtab: pip install 'nyala[completion]').",
    handler="cli.completion_scripts:completion_command",
    arguments=(argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish"),),
    examples=(
        "nyala completion bash > ~/.local/share/bash-completion/completions/nyala",
        "nyala completion zsh > ~/.zfunc/_nyala",
        "nyala completion fish > ~/.config/fish/completions/nyala.fish",
    ),
)


def nyala_parser() -> Parser:
    """The command line."""
    return build_parser(
        Command(
            "nyala",
            "",
            "A columnar SQL store in a directory. Each command has its own --help.",
            arguments=(argument("--version", action="version", version=f"nyala {__version__}"),),
            examples=("nyala shell weather", "nyala fs check weather", "nyala tpch load --sf 0.1 demo"),
            commands=(
                _SHELL,
                FS,
                SERVE,
                GATEWAY,
                MASTER,
                TSERVER,
                CLUSTER,
                TABLET,
                REPLICA,
                BACKUP,
                RESTORE,
                DIAGNOSE,
                SPARK,
                TPCH,
                bench_command(),
                _COMPLETION,
            ),
        )
    )
