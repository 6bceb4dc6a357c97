"""The collector is paused for imports, and is afterwards as it was before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import nyala
import pytest
from nyala.model.collector import paused_collector


@pytest.fixture(autouse=True)
def collector_as_before() -> Iterator[None]:
    enabled = gc.isenabled()
    yield
    (gc.enable if enabled else gc.disable)()


def test_the_collector_is_paused() -> None:
    gc.enable()
    with paused_collector():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_ends_the_pause() -> None:
    gc.enable()
    with pytest.raises(ImportError), paused_collector():
        raise ImportError
    assert gc.isenabled()


def test_a_program_that_turned_the_collector_off_keeps_it_off() -> None:
    gc.disable()
    with paused_collector():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_cycles_that_were_made_meanwhile_are_collected_later() -> None:
    gc.enable()
    with paused_collector():
        cycle: list[object] = []
        cycle.append(cycle)
        del cycle
    assert gc.collect() >= 1


def test_what_the_program_has_frozen_stays_frozen() -> None:
    gc.enable()
    has_frozen = gc.get_freeze_count() > 0
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with paused_collector():
            pass
        assert gc.get_freeze_count() > frozen // 2 > 0  # other threads may release some of the objects meanwhile
    finally:
        if not has_frozen:
            gc.unfreeze()


def test_only_the_first_connection_imports_with_a_paused_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    nyala.connect(":memory:").close()
    # It would count the objects that a program has frozen, which takes tens of milliseconds where they are many.
    monkeypatch.setattr(nyala, "paused_collector", None)
    nyala.connect(":memory:").close()
