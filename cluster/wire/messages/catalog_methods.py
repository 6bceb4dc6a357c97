"""Several changes of the catalog as one: masters have the method, and the embedded server.

Each step is plain data (`messages.plain`). Those that replace something name what they were made for, since a client's
catalog may be a second old.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from .methods import Call, Done, Request


class AlterTableStep(Struct, frozen=True, tag_field="step", tag="alter_table"):
    """As `methods.AlterTable`."""

    name: str
    steps: tuple[dict[str, Any], ...]


class ReplaceViewStep(Struct, frozen=True, tag_field="step", tag="replace_view"):
    """Another text or owner of a view."""

    before: dict[str, Any]
    after: dict[str, Any]


class RenameViewStep(Struct, frozen=True, tag_field="step", tag="rename_view"):
    """As `view_methods.RenameView`."""

    name: str
    new_name: str
    namespace: str


class CreateNamespaceStep(Struct, frozen=True, tag_field="step", tag="create_namespace"):
    """As `namespace_methods.CreateNamespace`."""

    namespace: dict[str, Any]


class ReplaceNamespaceStep(Struct, frozen=True, tag_field="step", tag="replace_namespace"):
    """Another owner of a namespace."""

    before: dict[str, Any]
    after: dict[str, Any]


class MoveGrantsStep(Struct, frozen=True, tag_field="step", tag="move_grants"):
    """The grants on an object are those on another one from now on; by their keys (`model.access.rights`)."""

    key: str
    new_key: str


class DropNamespaceStep(Struct, frozen=True, tag_field="step", tag="drop_namespace"):
    """As `namespace_methods.DropNamespace`, of an empty one."""

    name: str


CatalogStep: TypeAlias = (
    AlterTableStep
    | ReplaceViewStep
    | RenameViewStep
    | CreateNamespaceStep
    | ReplaceNamespaceStep
    | MoveGrantsStep
    | DropNamespaceStep
)


class ChangeCatalog(Request, frozen=True, tag="change_catalog"):
    """`Store.change_together`: all steps in their order, or none. Returns when the tablets of altered tables have the
    new version."""

    reply = Done
    steps: tuple[CatalogStep, ...]
    call: Call
