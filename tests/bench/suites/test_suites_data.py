"""Generated tables: the same rows each time, in the declared schema, with the declared numbers of distinct values."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest
from nyala.bench.suites.catalog import QUERY_SUITES
from nyala.bench.suites.model import Size
from nyala.bench.suites.queries import draws, functions, h2o, hits, ssb, timeseries, wide, wide_data
from nyala.sql.functions import FUNCTIONS

SMALL = Size(3_000, 0.002)


@pytest.mark.parametrize("suite", QUERY_SUITES, ids=lambda suite: suite.name)
def test_tables_are_deterministic_and_their_keys_unique(suite, tmp_path):
    if suite.name == "tpcds":
        pytest.skip("another program generates its data")
    for spec in suite.tables(SMALL, tmp_path):
        table = spec.read()
        assert table.equals(spec.read()) and table.num_rows
        assert tuple(table.column_names[: len(spec.key)]) == tuple(spec.key)
        assert table.select(list(spec.key)).group_by(list(spec.key)).aggregate([]).num_rows == table.num_rows
        for field in spec.schema:
            assert field.nullable or not table[field.name].null_count


def test_hits_has_the_columns_and_cardinalities_of_clickbench():
    rows = 20_000
    table = hits.table(rows).read()
    assert table.num_columns == 105
    declared = hits.cardinalities(rows)
    for name, values in declared.items():
        found = pc.count_distinct(table[name]).as_py()
        assert found <= values + 1 and found >= min(values, rows) * 0.4, name
    assert 0.84 < pc.mean(pc.equal(table["searchphrase"], "")).as_py() < 0.9
    assert 0.93 < pc.mean(pc.equal(table["mobilephonemodel"], "")).as_py() < 0.97
    for name, value in (("userid", hits.USER), ("urlhash", hits.URL_HASH), ("counterid", hits.COUNTER)):
        assert pc.sum(pc.equal(table[name], value)).as_py()
    assert pc.sum(pc.match_substring(table["url"], "google")).as_py()
    assert pc.max(pc.binary_length(table["title"])).as_py() > pc.max(pc.utf8_length(table["title"])).as_py()


def test_wide_has_every_type_and_the_declared_cardinalities():
    rows = 20_000
    table, notes, labels = (spec.read() for spec in wide_data.tables(rows))
    assert table.num_columns == 50 and labels.num_rows == wide_data.LABELS
    assert set(wide.KEYS) <= set(table.column_names)
    for name, values in wide_data.CARDINALITIES.items():
        assert values(rows) * 0.6 <= pc.count_distinct(table[name]).as_py() <= values(rows), name
    for name in ("u", "suniq", "sid"):
        assert pc.count_distinct(table[name]).as_py() == rows
    low, high = pc.min_max(table["i64"]).as_py().values()
    assert low < -(1 << 62) and high > 1 << 62, "keys of the whole range"
    for name, share in (("ni", 0.1), ("nf", 0.3), ("ns", 0.5), ("nd", 0.05)):
        assert abs(table[name].null_count / rows - share) < 0.02
    assert 0.3 < pc.mean(pc.not_equal(pc.binary_length(notes["body"]), pc.utf8_length(notes["body"]))).as_py() < 0.4


def test_h2o_has_the_declared_groups_and_partners():
    rows = 20_000
    x, *others = (spec.read() for spec in h2o.tables(Size(rows), None))
    assert h2o.groups(10**6) == 100
    for name, values in h2o.cardinalities(rows).items():
        assert min(values, rows) * 0.6 <= pc.count_distinct(x[name]).as_py() <= values, name
    assert {len(text) for text in x["id3"].to_pylist()} == {12} and x["id1"][0].as_py().startswith("id0")
    for column, (name, other) in zip(("j1", "j2", "j3"), zip(h2o.join_rows(rows), others)):
        found = pc.mean(pc.is_in(x[column], value_set=other[f"{name}_id"].combine_chunks())).as_py()
        assert 0.8 < found < 0.95, "nine of ten have a partner"


def test_time_series_have_gaps_and_every_alert_a_point_before_it():
    rows = 12_000
    cpu, hosts, alerts = (spec.read() for spec in timeseries.tables(Size(rows), None))
    assert hosts.num_rows == timeseries.hosts(rows) == pc.count_distinct(cpu["hostname"]).as_py() == 12
    assert rows * 0.97 < cpu.num_rows < rows * 0.99, "one point of 50 is missing"
    for name in timeseries.METRICS:
        low, high = pc.min_max(cpu[name]).as_py().values()
        assert low >= 0 and 95 < high <= 100, name
    assert pc.min(alerts["time"]).as_py() > timeseries.START and alerts.num_rows == 20


def test_the_star_schema_has_its_domains_and_every_line_its_dimensions():
    facts, customer, supplier, part, dates = (spec.read() for spec in ssb.tables(Size(0, 0.002), None))
    assert dates.num_rows == ssb.DAYS and dates["d_datekey"][-1].as_py() == 19981230
    assert 3.5 < facts.num_rows / ssb.cardinalities(0.002)["orders"] < 4.5, "one to seven lines"
    for column, values in (
        ("lo_custkey", customer["c_custkey"]),
        ("lo_suppkey", supplier["s_suppkey"]),
        ("lo_partkey", part["p_partkey"]),
        ("lo_orderdate", dates["d_datekey"]),
        ("lo_commitdate", dates["d_datekey"]),
    ):
        assert pc.all(pc.is_in(facts[column], value_set=values.combine_chunks())).as_py(), column
    for column, count in (("s_city", 250), ("s_nation", 25), ("s_region", 5)):
        assert pc.count_distinct(supplier[column]).as_py() == count
    assert pc.count_distinct(part["p_category"]).as_py() == 25
    assert ssb.cardinalities(4)["part"] == 600_000


def test_url_hashes_are_those_of_the_urls():
    table = hits.table(3_000).read()
    pairs = table.select(["url", "urlhash"]).group_by(["url", "urlhash"]).aggregate([]).num_rows
    assert pairs == pc.count_distinct(table["url"]).as_py() == pc.count_distinct(table["urlhash"]).as_py()


def test_pieces_do_not_depend_on_the_rows_after_them(monkeypatch):
    monkeypatch.setattr(draws, "PIECE", 500)
    assert [count for _, _, count in draws.pieces(1_200)] == [500, 500, 200]
    first, other = (np.concatenate([draws.generator(1, n).integers(0, 9, 500) for n in range(k)]) for k in (1, 2))
    assert (first == other[:500]).all()


@pytest.mark.parametrize("skew", [0.5, 1.0, 1.5])
def test_ranks_are_skewed_as_declared(skew):
    ranks = draws.zipf(np.random.default_rng(1), 100, 200_000, skew)
    shares = np.bincount(ranks, minlength=100) / len(ranks)
    assert len(shares) == 100 and shares[0] > shares[9] > shares[80] > 0
    # The continuous distribution has the ratio of integrals of x ** -skew over the ranks' intervals.
    edges = np.linspace(1, 101, 101)
    integral = np.log(edges) if skew == 1 else edges ** (1 - skew) / (1 - skew)
    expected = np.diff(integral) / (integral[-1] - integral[0])
    assert np.allclose(shares[:20], expected[:20], rtol=0.1)


def test_identifiers_of_ranks_differ():
    found = draws.identifiers(np.arange(100_000), 7)
    assert len(np.unique(found)) == 100_000 and found.min() >= 0


def test_every_scalar_function_has_a_query_or_no_counterpart():
    called = {query.name.partition(".")[0] for query in functions.queries(SMALL)}
    scalars = {function.name for function in FUNCTIONS if function.kind == "scalar"}
    assert scalars <= called | functions.NO_PEER
    assert not called & functions.NO_PEER and scalars >= functions.NO_PEER


def test_samples_are_mostly_distinct():
    rows = 20_000
    (spec,) = functions.tables(Size(rows), None)
    table = spec.read()
    for name in ("n", "big", "x", "y", "p", "ts", "until", "name", "mixed", "digits"):
        assert pc.count_distinct(table[name]).as_py() > 0.98 * rows, name
    assert 0.3 < pc.mean(pc.not_equal(pc.binary_length(table["mixed"]), pc.utf8_length(table["mixed"]))).as_py() < 0.4
