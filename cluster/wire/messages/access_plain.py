"""Users, grants and changes of them as plain data: what a client sends of `Store.change_access`, and masters keep.

    access_to_plain        Access, with or without verifiers        keys_to_plain     TokenKeys
    access_step_to_plain   AccessStep, but for those that only a store makes

What comes from a client is checked field by field: a step of another kind, or with a value of another type, is a
`ProtocolError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from ....errors import ProtocolError
from ....model.access.roles import Access
from ....model.access.steps import (
    AccessStep,
    AddGrant,
    AddMember,
    AlterRole,
    CreateRole,
    DropRole,
    PermitNoUsers,
    RemoveGrant,
    RemoveMember,
)
from ....model.access.tokens import TokenKey
from ....model.codec.access import access_from_dict, access_to_dict
from ....model.codec.values import reads
from ...decoders import converter

_NAMES: Final[Mapping[type, str]] = {
    CreateRole: "create_role",
    AlterRole: "alter_role",
    DropRole: "drop_role",
    PermitNoUsers: "permit_no_users",
    AddMember: "add_member",
    RemoveMember: "remove_member",
    AddGrant: "add_grant",
    RemoveGrant: "remove_grant",
}
_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {name: converter(kind) for kind, name in _NAMES.items()}
_ATTRIBUTES: Final[Mapping[str, tuple[type, ...]]] = {
    "can_login": (bool,),
    "is_superuser": (bool,),
    "verifier": (str,),
    "valid_until": (int, type(None)),
}
"""Of `Role`, those that ALTER ROLE changes, with their types."""


def access_to_plain(access: Access, with_verifiers: bool) -> dict[str, Any]:
    """Returns users, memberships and grants as plain data; without verifiers, roles have no password."""
    if not with_verifiers:
        access = replace(access, roles={name: replace(role, verifier="") for name, role in access.roles.items()})
    return access_to_dict(access)


@reads("list of users")
def access_from_plain(data: Mapping[str, Any]) -> Access:
    """Returns the access of `access_to_plain`."""
    return access_from_dict(data)


def keys_to_plain(keys: Iterable[TokenKey]) -> list[list[Any]]:
    """Returns keys as plain data."""
    return [[key.number, key.secret, key.made] for key in keys]


def keys_from_plain(data: Iterable[Any]) -> tuple[TokenKey, ...]:
    """Returns the keys of `keys_to_plain`."""
    return tuple(TokenKey(*row) for row in data)


def access_step_to_plain(step: AccessStep) -> dict[str, Any]:
    """Returns a step as plain data."""
    return {"step": _NAMES[type(step)], **msgspec.to_builtins(step)}


@reads("change of users")
def access_step_from_plain(data: Mapping[str, Any]) -> AccessStep:
    """Returns the step of `access_step_to_plain`."""
    values = dict(data)
    name = values.pop("step")
    if name not in _READERS:
        raise ProtocolError(f"malformed change of users: there is no step {name!r}")
    step: AccessStep = _READERS[name](values)
    if isinstance(step, AlterRole):
        for attribute, value in step.changes:
            if type(value) not in _ATTRIBUTES.get(attribute, ()):
                raise ProtocolError(f"malformed change of users: {attribute!r} cannot become {value!r:.40}")
    return step
