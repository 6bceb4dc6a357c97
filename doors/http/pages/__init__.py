"""The pages: each is a function from a request to a title and HTML, made on the server, without a script.

    html  stylesheet  frame        elements that escape, one stylesheet, the frame with the navigation
    overview  cluster              health in one line; masters, servers and tablets of a cluster
    tables  layout                 tables, one table with its tablets; rowsets over keys as SVG
    statements  sessions           running, recent and slow statements, cancel; sessions and transactions
    maintenance  settings  log     background operations; settings and options; the tail of the log
    console                        one read-only statement and its rows

`ROUTES` has them by path. Nothing polls: a page reads when it is loaded.
"""

from __future__ import annotations

from . import cluster, console, log, maintenance, overview, sessions, settings, statements, tables
from .frame import Route, framed, problem
from .stylesheet import STYLESHEET

ROUTES: dict[str, Route] = {
    "/": Route(overview.overview),
    "/cluster": Route(cluster.cluster),
    "/tables": Route(tables.tables),
    "/table": Route(tables.table_page),
    "/tablets": Route(tables.tablets),
    "/statements": Route(statements.statements, takes_forms=True),
    "/statement": Route(statements.statement),
    "/sessions": Route(sessions.sessions),
    "/maintenance": Route(maintenance.maintenance),
    "/settings": Route(settings.settings),
    "/log": Route(log.log),
    "/console": Route(console.console, takes_forms=True),
}

__all__ = ["ROUTES", "STYLESHEET", "Route", "framed", "problem"]
