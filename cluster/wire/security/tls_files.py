"""The files with which a side of a connection identifies itself and checks the other: the values of the TLS options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ....errors import InterfaceError
from ....model.lazy_dataclass import dataclass

OPTIONS: Final = ("tls_ca", "tls_cert", "tls_key")
"""Names in `connect` and URLs; command lines have --tls-ca and so on, the environment NYALA_TLS_CA."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files: the CA's certificate (or several), this side's certificate, its key without a password."""

    ca: str
    certificate: str
    key: str

    def options(self) -> dict[str, str]:
        """Returns them as options of `connect`."""
        return dict(zip(OPTIONS, (self.ca, self.certificate, self.key), strict=True))


def tls_files(given: Mapping[str, Any], spelled: Mapping[str, str] | None = None) -> TlsFiles | None:
    """Returns the files that `OPTIONS` name; None if none of them is given. Raises `InterfaceError` if some are
    missing; `spelled` gives their names in the message.

    >>> tls_files({"tls_ca": "ca.crt", "tls_cert": "client.crt", "tls_key": "client.key"})
    TlsFiles(ca='ca.crt', certificate='client.crt', key='client.key')
    """
    names = {name: (spelled or {}).get(name, name) for name in OPTIONS}
    there = [name for name in OPTIONS if given.get(name)]
    missing = [names[name] for name in OPTIONS if name not in there]
    if not there:
        return None
    if missing:
        shown = " and ".join(names[name] for name in there)
        raise InterfaceError(f"{shown} without {' and '.join(missing)}: TLS needs all three, or none")
    return TlsFiles(*(str(given[name]) for name in OPTIONS))
