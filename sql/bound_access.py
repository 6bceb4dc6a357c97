"""Bound statements about users, roles and rights. The others are in `bound`."""

from __future__ import annotations

from typing import TypeAlias

from ..model.access.steps import AccessStep
from ..model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ChangeAccess:
    """CREATE, ALTER and DROP ROLE, GRANT, REVOKE: all steps or none."""

    steps: tuple[AccessStep, ...]


@dataclass(frozen=True, slots=True)
class SetRole:
    """SET ROLE; None is RESET ROLE."""

    role: str | None


@dataclass(frozen=True, slots=True)
class ShowGrants:
    """SHOW GRANTS, of one object by its key, of one role, or all."""

    key: str | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class ShowRoles:
    """SHOW ROLES."""


AccessStatement: TypeAlias = ChangeAccess | SetRole | ShowGrants | ShowRoles
