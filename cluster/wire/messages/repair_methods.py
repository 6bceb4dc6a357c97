"""The last resort of administrators, as a method of tablet servers."""

from __future__ import annotations

from .methods import ConfigurationReply, Request


class UnsafeChangeConfig(Request, frozen=True, tag="unsafe_change_config"):
    """To a server that has a replica of a tablet whose majority is lost for good: the peers with these ids are the
    whole configuration from now on. What others had acknowledged without this replica is lost. `ConfigurationRefused`
    while the tablet has a leader."""

    reply = ConfigurationReply
    tablet_id: str
    survivors: tuple[str, ...]
