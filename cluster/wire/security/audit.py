"""Audit lines in a server's log, with identity and address of the caller: denied calls, and changes of tables or
servers.

    denied    each call, scan or exchange that a certificate's role does not allow
    done      each requested change of a table, view, replica, leadership or server, and each compaction
    failed    the same, if it was not made

Without TLS, `who` is the caller's own claim. gRPC does not report connections that failed for lack of a good
certificate: only the caller's `AuthenticationFailed` shows those.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from ..messages import methods, namespace_methods, user_methods, view_methods
from ..messages.catalog_methods import ChangeCatalog
from ..messages.maintenance_methods import LeaveCluster, MaintainServer, QuiesceServer
from ..messages.membership_methods import AddMaster, RemoveMaster, UnsafeChangeMasters
from ..messages.methods import Request
from ..messages.repair_methods import UnsafeChangeConfig

_logger = logging.getLogger("nyala.cluster.audit")

_AUDITED: Final = (
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
    methods.ChangeReplicas,
    methods.StepDown,
    LeaveCluster,
    MaintainServer,
    QuiesceServer,
    methods.SetFaults,
    UnsafeChangeConfig,
    AddMaster,
    RemoveMaster,
    UnsafeChangeMasters,
)
_NAMES: Final = ("name", "names", "table_id", "tablet_id", "server", "address", "work", "action")
"""Fields of requests that name their object."""


def log_denied(what: str, who: str, address: str, error: Exception) -> None:
    """Logs a denied call; `who` is the identity of its certificate."""
    _logger.warning("denied", extra={"fields": {"what": what, "who": who, "from": address, "error": str(error)}})


def log_done(request: Request, who: str, address: str, error: BaseException | None = None) -> None:
    """Logs a request that changes tables or servers; others leave no line."""
    is_compaction = isinstance(request, methods.WorkOnTablet) and request.work == "compact"
    if not isinstance(request, _AUDITED) and not is_compaction:
        return
    fields: dict[str, Any] = {"what": type(request).__name__, "who": who, "from": address}
    fields |= {name: getattr(request, name) for name in _NAMES if getattr(request, name, None)}
    for part in ("definition", "view", "namespace"):
        made = getattr(request, part, None)
        if isinstance(made, dict) and "name" in made:
            fields["name"] = made["name"]
    if error is not None:
        fields["error"] = f"{type(error).__name__}: {error}"
    _logger.info("done" if error is None else "failed", extra={"fields": fields})
