"""Access control: the roles that certificates give, and the least role that each method needs.

| role | its certificate's first alternative name | may |
|---|---|---|
| CLIENT | `nyala-client`, `nyala-client.NAME` | read and write rows, change tables, locate them |
| ADMIN | `nyala-admin`, `nyala-admin.NAME` | and compact, check, move replicas, transfer leaderships, empty servers |
| SERVER | `nyala-server` | and take part: consensus, copies of replicas, reports, orders |

NAME is one label, for the log: neither the host `nyala-client.example.com` nor the e-mail address
`nyala-client.smith@example.com` gives a role.

A method that is not listed here is for servers only. Without TLS callers are not identified, and may call all methods.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from ....errors import AccessDenied
from ..messages import (
    joint_methods,
    load_methods,
    methods,
    namespace_methods,
    transaction_methods,
    user_methods,
    view_methods,
)
from ..messages.catalog_methods import ChangeCatalog
from ..messages.maintenance_methods import LeaveCluster, MaintainServer, QuiesceServer
from ..messages.membership_methods import AddMaster, ListMasters, RemoveMaster, UnsafeChangeMasters
from ..messages.methods import Request
from ..messages.repair_methods import UnsafeChangeConfig

_PREFIX: Final = "nyala-"
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?")


class Role(enum.IntEnum):
    """The role of a certificate; a greater one includes the rights of a lesser one."""

    CLIENT = 1
    ADMIN = 2
    SERVER = 3

    @property
    def dns_name(self) -> str:
        """The alternative name, of the kind "DNS", that gives the role."""
        return _PREFIX + role_name(self)


def role_name(role: Role) -> str:
    """ "client", "admin" or "server"."""
    return role.name.lower()


def role_of(identity: str) -> Role | None:
    """Returns the role that a first alternative name gives; None if it gives none.

    >>> role_of("nyala-client.reports")
    <Role.CLIENT: 1>
    """
    name, dot, label = identity.lower().partition(".")
    role = next((role for role in Role if role.dns_name == name), None)
    if dot and (role is Role.SERVER or not _LABEL.fullmatch(label)):
        return None
    return role


_CLIENTS: Final = (
    methods.GetStatus,
    methods.Write,
    methods.WriteRow,
    methods.ReadRow,
    methods.StartScan,
    methods.CloseScanner,
    methods.KeepAlive,
    methods.DescribeTablets,
    methods.KeySamples,
    methods.WorkOnTablet,
    methods.GetCatalog,
    methods.CreateTable,
    methods.DropTable,
    methods.AlterTable,
    methods.CreateView,
    methods.DropViews,
    view_methods.RenameView,
    namespace_methods.CreateNamespace,
    namespace_methods.DropNamespace,
    ChangeCatalog,
    user_methods.ChangeAccess,
    user_methods.BeginLogin,
    user_methods.FinishLogin,
    user_methods.MakeTaskToken,
    methods.LocateTablets,
    methods.ListServers,
    ListMasters,
    load_methods.StartLoad,
    load_methods.LoadRows,
    load_methods.FinishLoad,
    load_methods.AbandonLoad,
    joint_methods.StageRows,
    joint_methods.WriteTable,
    joint_methods.DropStaged,
    joint_methods.CommitTransaction,
    transaction_methods.TakeNumbers,
    transaction_methods.StageWrite,
    transaction_methods.PrepareWrite,
    transaction_methods.Decide,
    transaction_methods.Resolve,
)
_ADMINISTRATORS: Final = (
    methods.ReportTablets,
    methods.ChecksumTablet,
    methods.ChangeReplicas,
    methods.StepDown,
    UnsafeChangeConfig,
    AddMaster,
    RemoveMaster,
    UnsafeChangeMasters,
    LeaveCluster,
    MaintainServer,
    QuiesceServer,
    methods.SetFaults,
)
_CLIENTS_WORK: Final = ("analyze", "flush")
"""Works on a tablet that clients may request. A flush ends each bulk load, and costs no more than the writes before; a
compaction rewrites files, at every replica."""
NEEDED: Final[Mapping[type[Request], Role]] = {
    **dict.fromkeys(_CLIENTS, Role.CLIENT),
    **dict.fromkeys(_ADMINISTRATORS, Role.ADMIN),
}
"""By method; others need `Role.SERVER`."""


def identity_of(flight_context: object) -> str:
    """Returns the first alternative name of the caller's certificate, as Flight reports it."""
    told = flight_context.peer_identity()  # type: ignore[attr-defined]
    return bytes(told).decode("utf-8", "replace")


def address_of(flight_context: object) -> str:
    """Returns the caller's address in gRPC's form: "127.0.0.1:40123"."""
    told = str(flight_context.peer())  # type: ignore[attr-defined]
    kind, _, address = told.partition(":")
    return unquote(address if kind in ("ipv4", "ipv6") else told)


def check_request(identity: str, request: Request) -> None:
    """Raises `AccessDenied` if the holder of a certificate may not make a request."""
    if isinstance(request, methods.WorkOnTablet) and request.work not in _CLIENTS_WORK:
        check_role(identity, Role.ADMIN, f"to {request.work} a tablet")
    check_method(identity, type(request))


def check_method(identity: str, method: type[Request]) -> None:
    """Raises `AccessDenied` if the holder of a certificate may not call a method."""
    check_role(identity, NEEDED.get(method, Role.SERVER), f"the method {method.__name__}")


def check_role(identity: str, needed: Role, what: str) -> None:
    """Raises `AccessDenied` if the holder of a certificate does not have the needed role."""
    role = role_of(identity)
    if role is None:
        known = ", ".join(role.dns_name for role in Role)
        raise AccessDenied(
            f"the caller's certificate gives no role: its first alternative name is {identity!r}, and should be one of "
            f"{known}"
        )
    if role < needed:
        raise AccessDenied(
            f"{what} is not for a {role_name(role)}'s certificate ({identity}): it needs that of "
            f"{'an admin or a server' if needed is Role.ADMIN else 'a server'}"
        )
