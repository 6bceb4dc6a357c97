"""Exceptions about users, roles and rights, which are all in `errors`."""

from __future__ import annotations

from .error_bases import OperationalError, StatementError


class PermissionDenied(StatementError):
    """Have the right granted that the message names, or act as another role: the current one may not do this."""

    sqlstate = "42501"


class UnknownRole(StatementError):
    """Name a role that exists; the message lists close ones."""

    sqlstate = "42704"


class DuplicateRole(StatementError):
    """Choose another name, or ALTER the role: there is one of this name."""

    sqlstate = "42710"


class DependentObjects(StatementError):
    """Remove first what depends on the object, role or right, which the message names, or use CASCADE."""

    sqlstate = "2BP01"


class LastUser(StatementError):
    """Create another user that can log in first: without this one the store would be open to all who reach it, or have
    no superuser with a password. `DROP USER ... FORCE` drops it all the same."""

    sqlstate = "55006"


class InvalidGrant(StatementError):
    """Correct the GRANT: the object has no such right, or memberships would form a circle."""

    sqlstate = "0LP01"


class InvalidPassword(OperationalError):
    """Correct the user's name or password. Which of the two is wrong is not said."""

    sqlstate = "28P01"


class LoginNeeded(OperationalError):
    """Name a user: `nyala://USER:PASSWORD@HOST/`, the options `user` and `password`, or NYALA_USER and NYALA_PASSWORD
    in the environment."""

    sqlstate = "28000"


class LoginExpired(OperationalError):
    """Log in again: the proof of an earlier login is not valid any more. Clients do it by themselves."""

    sqlstate = "28000"
    retryable = True
