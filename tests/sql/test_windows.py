"""Window calls, QUALIFY and DISTINCT ON in bound form, and the errors of wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


def test_wrong_windows_say_what_is_wrong_and_where(
    golden: Callable[[Path, Callable[[str], str]], None], explain_binding: Callable[[str], str]
) -> None:
    golden(GOLDEN / "errors_windows.txt", explain_binding)


def test_bound_windows(
    golden: Callable[[Path, Callable[[str], str]], None], explain_binding: Callable[[str], str]
) -> None:
    golden(GOLDEN / "bound_windows.txt", explain_binding)
