"""The method for views that servers of earlier versions do not have; `methods` has the others."""

from __future__ import annotations

from .methods import Call, Done, Request


class RenameView(Request, frozen=True, tag="rename_view"):
    """`Store.rename_view`."""

    reply = Done
    name: str
    new_name: str
    namespace: str
    call: Call
