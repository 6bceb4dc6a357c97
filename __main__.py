"""The `nyala` command.

    nyala shell [TARGET]                  SQL, interactive or from -c, -f or a pipe
    nyala fs check|dump|layout ...        look at a store's files from outside
    nyala serve DIR                       a store's directory, for several processes at once
    nyala gateway nyala://... --postgres  clients of PostgreSQL in front of a cluster
    nyala cluster start --dir DIR         a cluster of processes on this machine; stop, status, ksck, rebalance, leave
    nyala cluster certificates DIR ...    a CA and certificates, for clusters with TLS
    nyala tablet list|move ...            where a cluster's tablets are
    nyala master|tserver --dir DIR        run one server of a cluster
    nyala backup STORE DEST               tables into files, then their changes; nyala restore brings them back
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

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .cli.commands.all_commands import nyala_parser
from .command_line import find_handler
from .errors import Error, StoreLocked
from .model.disk_errors import disk_error

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
"""As shells report an end by Ctrl-C."""

_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""Errors of writing to standard output; such an error names no file."""


def _message(error: Error) -> str:
    if not isinstance(error, StoreLocked):
        return str(error)
    from .shell.serving import message_of

    return message_of(error)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    parser = nyala_parser()
    if not (sys.argv[1:] if argv is None else argv):
        # As git does: the help, and the exit code of a wrong command line, so that a script notices.
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    arguments = parser.parse_args(argv)
    handler = find_handler(arguments.run)
    if sys.stdout is None:  # closed by the parent process
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
