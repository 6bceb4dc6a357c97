"""Users, roles and grants as plain data, for the catalog file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..access.rights import Right
from ..access.roles import Access, Grant, Membership, Role


def access_to_dict(access: Access) -> dict[str, Any]:
    """An access."""
    return {
        "roles": [
            [
                role.name,
                role.can_login,
                role.is_superuser,
                role.verifier,
                role.valid_until,
                role.number,
                role.logins_ended,
            ]
            for role in access.roles.values()
        ],
        "memberships": [[each.role, each.member, each.grantor, each.is_admin] for each in access.memberships],
        "grants": [
            [grant.key, grant.right.name, grant.grantee, grant.grantor, grant.has_option] for grant in access.grants
        ],
        "next_number": access.next_number,
    }


def access_from_dict(data: Mapping[str, Any]) -> Access:
    """The access of `access_to_dict`."""
    roles = [Role(*row) for row in data["roles"]]
    return Access(
        {role.name: role for role in roles},
        tuple(Membership(*row) for row in data["memberships"]),
        tuple(Grant(key, Right[right], *rest) for key, right, *rest in data["grants"]),
        data["next_number"],
    )
