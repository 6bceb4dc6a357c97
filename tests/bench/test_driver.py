"""The driver benchmark does all steps with all engines and leaves nothing behind."""

import io

from nyala.bench import driver
from rich.console import Console


def test_all_steps_are_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "ROWS", 100)
    monkeypatch.setattr(driver, "FEW", dict.fromkeys(driver.FEW, 10))
    monkeypatch.setattr(driver, "MANY", dict.fromkeys(driver.MANY, 10))
    monkeypatch.setattr(driver, "IMPORTS", {"nyala": "pass"})
    found = driver.measure(runs=2, work=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert set(found.rates) == {"nyala", "sqlite", "duckdb"}
    for steps in found.rates.values():
        assert set(steps) == set(driver.TARGETS)
        assert all(len(rate.per_second) == 2 and rate.median > 0 for rate in steps.values())
    out = io.StringIO()
    driver.show(found, Console(file=out, width=160))
    for word in (*driver.TARGETS, "/ duckdb", "import, nyala"):
        assert word in out.getvalue()
