"""The pages of a store with users: they show all of it, so they are for superusers."""

from __future__ import annotations

from base64 import b64encode

import nyala
from http_support import ask
from nyala.doors.http import serve


def basic(user: str, password: str) -> str:
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def test_pages_of_a_store_with_users_are_for_superusers() -> None:
    with nyala.connect(":memory:") as connection, serve(connection) as server:
        assert ask(server, "/tables")[0].status == 200
        connection.execute("CREATE USER ann PASSWORD 'a'; CREATE USER root SUPERUSER PASSWORD 'r'")
        for path in ("/", "/tables", "/console", "/metrics", "/statements", "/log"):
            assert ask(server, path)[0].status == 401, path
        assert ask(server, "/healthz")[0].status == 200
        assert ask(server, "/tables", Authorization=basic("ann", "a"))[0].status == 401
        assert ask(server, "/tables", Authorization=basic("root", "a"))[0].status == 401
        assert ask(server, "/tables", Authorization=basic("root", "r"))[0].status == 200
        connection.execute("ALTER USER nyala PASSWORD 'n'; ALTER USER root NOSUPERUSER")
        assert ask(server, "/tables", Authorization=basic("root", "r"))[0].status == 401
