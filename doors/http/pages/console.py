"""The console: one or more read-only statements, and the rows of the last one.

A statement runs on a connection as of the present (`Connection.at`), which refuses everything that writes; files of the
server can neither be read nor written. It may take 30 seconds, and shows its first 500 rows.
"""

from __future__ import annotations

import re
import threading
import time
from typing import Any, Final

from ....errors import Error, NotSupportedError
from ..request import Request
from .frame import Page
from .html import Html, duration, element, form, join, table

SECONDS: Final = 30.0
ROWS: Final = 500
_CHARACTERS: Final = 2_000
"""Of a value, beyond which it is cut."""
_CLOSED: Final = re.compile(
    r"\b(?:SET|RESET)\s+(?:(?:SESSION|LOCAL)\s+)?(?:temp_directory|engine|ALL)\b", re.IGNORECASE
)


def console(request: Request) -> Page:
    """The page "/console": `sql` is the text; a form runs it, a link only shows it."""
    text = request.value("sql")
    shown = form(
        "/console",
        request.server.token,
        element("label", "SQL, read-only", for_="sql"),
        element("textarea", "\n" + text, id="sql", name="sql", spellcheck="false", required=True),
        element("p", element("button", "Run")),
    )
    return "Console", join([shown, _result(request, text) if request.is_post and text.strip() else None])


def _result(request: Request, text: str) -> Html:
    began = time.perf_counter()
    try:
        with request.audited(text) as counted:
            headings, rows, more = _run(request, text)
            if headings:
                counted.append(len(rows))
    except Error as error:
        return element("pre", f"{error.sqlstate}: {error}", class_="bad", role="alert")
    about = f"{len(rows):,} rows{', and more' if more else ''} in {duration(time.perf_counter() - began)}"
    if headings == ["plan"]:
        return join([element("p", about), element("pre", "\n".join(str(row[0]) for row in rows), tabindex="0")])
    return table(about, headings, rows, "The result has no rows.")


def _run(request: Request, text: str) -> tuple[list[str], list[list[Any]], bool]:
    if _CLOSED.search(text):
        raise NotSupportedError("the console does not change what the server does outside of the store")
    own = request.subject.connection()
    with own.at(own.now()) as connection:
        session = connection.session
        session.files, session.client = None, f"console ({request.user})"
        session.write_advice = "is for other clients: the console only reads"
        timer = threading.Timer(SECONDS, connection.cancel)
        timer.daemon = True
        timer.start()
        try:
            cursor = connection.execute(text)
            if cursor.description is None:
                return [], [], False
            rows = cursor.fetchmany(ROWS + 1)
            return [column[0] for column in cursor.description], [_cells(row) for row in rows[:ROWS]], len(rows) > ROWS
        finally:
            timer.cancel()
            timer.join()


def _cells(row: tuple[Any, ...]) -> list[Any]:
    return [cell if cell is None or isinstance(cell, int | float) else _text(cell) for cell in row]


def _text(cell: Any) -> str:
    text = cell.hex(" ") if isinstance(cell, bytes) else str(cell)
    return text if len(text) <= _CHARACTERS else text[:_CHARACTERS] + " ..."
