"""Methods for namespaces, the schemas of SQL: masters have them, and the embedded server."""

from __future__ import annotations

from typing import Any

from .methods import Call, Done, Request


class CreateNamespace(Request, frozen=True, tag="create_namespace"):
    """`Store.create_namespace` (`messages.plain.namespace_to_plain`)."""

    reply = Done
    namespace: dict[str, Any]
    call: Call


class DropNamespace(Request, frozen=True, tag="drop_namespace"):
    """`Store.drop_namespace`."""

    reply = Done
    name: str
    tables: tuple[str, ...]
    views: tuple[str, ...]
    call: Call
