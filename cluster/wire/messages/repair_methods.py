"""The administrator's last resort, as a method of tablet servers."""

from __future__ import annotations

from .methods import ConfigurationReply, Request


class UnsafeChangeConfig(Request, frozen=True, tag="unsafe_change_config"):
    """To a server with a replica of a tablet whose majority is permanently lost: the peers with these ids become the
    whole configuration. Entries that others had acknowledged without this replica are lost. Raises
    `ConfigurationRefused` while the tablet has a leader."""

    reply = ConfigurationReply
    tablet_id: str
    survivors: tuple[str, ...]
