"""`nyala serve`: a directory's store for other processes, until SIGTERM or until it has been idle."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..cluster.embedded_server.process import EmbeddedServerOptions, run
from ..cluster.embedded_server.server_record import find_server
from ..doors.http.beside import ServerWithPages, with_pages
from ..doors.http.subject import Subject
from ..driver.connection import connect_to
from ..driver.stores.open_stores import directory_of
from ..driver.stores.server_processes import holds_store
from ..errors import InterfaceError
from ..executor.fragments.evaluate import table_evaluator
from ..model.store import Store
from ..shell.serving import note_new
from ..sql.settings import parse_bytes
from .arguments import io_limit, log_options
from .doors import Doors, door_options
from .http_options import shown_options


def serve_command(arguments: argparse.Namespace) -> int:
    """`nyala serve`: prints its URL."""
    if arguments.idle_exit is not None and arguments.idle_exit <= 0:
        raise InterfaceError(f"--idle-exit {arguments.idle_exit:g}: a number of seconds above 0 is needed")
    if arguments.history_seconds is not None and arguments.history_seconds < 0:
        raise InterfaceError(f"--history-seconds {arguments.history_seconds}: a whole number of seconds is needed")
    of_doors, http = door_options(arguments)
    if (url := _served(arguments)) is not None:
        print(url, flush=True)
        return 0
    if arguments.idle_exit is None:  # one that is started for another process has said so there
        note_new(arguments.directory)
    memory = arguments.store_memory
    options = EmbeddedServerOptions(
        directory=str(arguments.directory),
        bind=arguments.bind,
        flight_port=arguments.flight_port,
        idle_exit=arguments.idle_exit,
        durability=arguments.durability,
        history_seconds=arguments.history_seconds,
        memory_limit_bytes=None if memory is None else parse_bytes(memory, "store-memory"),
        maintenance_io_limit=io_limit(arguments.maintenance_io_limit),
    )
    made: list[Doors] = []

    def make_door(store: Store) -> Doors:
        made.append(Doors(connect_to(store, options.directory), of_doors))
        return made[0]

    subject = Subject(
        "store",
        options.directory,
        lambda process: connect_to(process.store, options.directory),
        options=shown_options(arguments),
    )
    pages: list[ServerWithPages] = []

    def ready(address: str) -> None:
        urls = (*(url for doors in made for url in doors.urls), *(server.http.url for server in pages))
        print(f"nyala://{address}", *urls, sep="\n", flush=True)

    return run(
        options,
        fragments=table_evaluator,
        make_door=make_door if of_doors else None,
        ready=ready,
        around=lambda make: with_pages(make, subject, http, pages.append),
        **log_options(arguments),
    )


def _served(arguments: argparse.Namespace) -> str | None:
    """The URL of the process that serves the directory already; None where none does.

    Raises
    ------
    InterfaceError
        An option is given that only the process which opens the store can follow.
    """
    directory = directory_of(arguments.directory)
    record = find_server(directory) if holds_store(Path(directory)) else None
    if record is None or not record.address:
        return None
    given = {
        "--history-seconds": arguments.history_seconds,
        "--store-memory": arguments.store_memory,
        "--maintenance-io-limit": arguments.maintenance_io_limit,
    }
    for name, value in given.items():
        if value is not None:
            raise InterfaceError(f"{name}: {directory} is served by process {record.pid}, which has opened it")
    doors = {"--postgres": arguments.postgres, "--flight-sql": arguments.flight_sql, "--http": arguments.http}
    for option, address in doors.items():
        if address is not None:
            raise InterfaceError(
                f"{option}: {directory} is served by process {record.pid}; "
                f"nyala gateway {record.url} {option} {address} puts the protocol in front of it"
            )
    return record.url
