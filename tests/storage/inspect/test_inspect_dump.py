"""`describe_file` and `table_layout`: golden text of a small store, and the average height against counting."""

import datetime
import random
from decimal import Decimal
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import nyala.storage.database as database
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.errors import Error
from nyala.model.clock import HybridClock
from nyala.model.schema import ColumnSchema, Compression, Encoding, HashRule, PartitionSchema, Schema, TableDefinition
from nyala.model.store import Op, WriteBatch
from nyala.model.types import DATE, DECIMAL, INT, STRING
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.inspect.dump.dump_file import describe_file
from nyala.storage.inspect.layout.layout_svg import draw_layout, stacked
from nyala.storage.inspect.layout.layout_text import bar, describe_layout
from nyala.storage.inspect.layout.table_layout import RowSetSpan, average_height, key_places, table_layout
from nyala.storage.loads.load_record import LoadRecord, TabletLoad
from nyala.storage.maintenance.tablet_flush import flush_deltas
from nyala.storage.tablet.tablet_metadata import TabletMetadata
from tablet_support import definition, insert, load, rowset_loader

GOLDEN = Path(__file__).parent / "golden" / "inspect.txt"
NOON = 1_767_268_800_000_000
SCHEMA = Schema(
    (
        ColumnSchema("day", DATE, False, encoding=Encoding.FRAME_OF_REFERENCE, compression=Compression.NONE),
        ColumnSchema("remark", STRING, encoding=Encoding.DICT, compression=Compression.NONE, comment="what was seen"),
        ColumnSchema("rain", DECIMAL(6, 1), encoding=Encoding.PLAIN, compression=Compression.LZ4),
        ColumnSchema("station", INT, default=7, encoding=Encoding.PLAIN, compression=Compression.NONE),
    ),
    1,
)


def days(first, count, step):
    start = datetime.date(2026, 1, 1) + datetime.timedelta(first)
    return [start + datetime.timedelta(step * n) for n in range(count)]


def rows(first, count, step=1):
    return pa.record_batch(
        {
            "day": days(first, count, step),
            "remark": pa.array([None if n % 5 == 0 else f"rain\n{n % 3}" for n in range(count)], pa.string()),
            "rain": pa.array([Decimal(n % 40) / 2 for n in range(count)], pa.decimal128(6, 1)),
            "station": pa.array([7] * count, pa.int32()),
        }
    )


@pytest.fixture
def fs(monkeypatch):
    monkeypatch.setattr(database, "HybridClock", partial(HybridClock, physical=lambda: NOON))
    fs = MemoryFileSystem()
    with database.Database("/db", fs=fs, threads=1, background=False) as db:
        partitions = PartitionSchema((HashRule(("day",), 2),))
        table = db.create_table(TableDefinition("reading", SCHEMA, partitions, "of rain"))
        with rowset_loader(db, table) as loader:
            loader.append(rows(0, 150, 2))
            loader.finish()
        db.write(table, WriteBatch(rows(201, 40, 4), Op.INSERT))
        db.flush()
        for first in (500, 600):
            db.write(table, WriteBatch(rows(first, 6, 7), Op.INSERT))
        wet = rows(0, 8, 2)
        db.write(table, WriteBatch(wet.select(["day", "remark", "rain"]), Op.UPDATE))
        db.write(table, WriteBatch(wet.slice(3, 3).select(["day"]), Op.DELETE))
        for tablet in db._stores[table.id].tablets:
            flush_deltas(tablet, tablet.state.rowsets[0])
        db.write(table, WriteBatch(rows(500, 6, 7), Op.UPSERT))
        db.write(table, WriteBatch(rows(600, 2, 7).select(["day"]), Op.DELETE))
    fs.create("/db/stranger").write(b"once upon a time")
    metadata = TabletMetadata.read(fs, "/db/tables/t000001/t000001-p0000")
    record = LoadRecord(7, {metadata.tablet_id: TabletLoad(metadata.rowsets[:1], 2)})
    record.write(fs, "/db/tables/t000001")
    return fs


def test_golden(fs, golden):
    def damage(name, offset):
        file = fs.open(f"/db/{name}")
        data = bytearray(file.read_at(0, file.size))
        data[int(offset)] ^= 1
        fs.create(f"/db/{name}").write(data)
        return f"byte {offset} flipped"

    commands = {
        "dump": lambda name, rows=10: describe_file(fs, f"/db/{name}", int(rows)),
        "layout": lambda name, width: describe_layout(table_layout(fs, "/db", name), int(width)),
        "svg": lambda name: draw_layout(table_layout(fs, "/db", name)),
        "damage": damage,
    }

    def run(line):
        command, *words = line.split()
        return commands[command](*words)

    golden(GOLDEN, run)


def test_damage_anywhere_is_shown_or_a_message(fs):
    chance = random.Random(11)
    folder = "/db/tables/t000001/t000001-p0001"
    names = ["/db/catalog", "/db/FORMAT", f"{folder}/metadata", f"{folder}/wal/0000000000000003.log"]
    names += [f"{folder}/rowsets/{name}" for name in fs.list(f"{folder}/rowsets")]
    for name in names:
        file = fs.open(name)
        whole = file.read_at(0, file.size)
        flips = [bytearray(whole) for _ in range(10)]
        for data in flips:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        for data in [*flips, *(whole[: chance.randrange(len(whole))] for _ in range(10)), b""]:
            fs.create(name).write(data)
            try:
                assert describe_file(fs, name)
            except Error as error:
                assert name in str(error)
        fs.create(name).write(whole)


def test_the_picture_is_xml_with_a_box_per_rowset(fs):
    layout = table_layout(fs, "/db", "reading")
    boxes = ElementTree.fromstring(draw_layout(layout)).iter("{http://www.w3.org/2000/svg}title")
    assert [box.text.split(":")[0] for box in boxes] == [
        f"rowset {r.id}" for t in layout.tablets for lane in stacked(t.rowsets) for r in lane
    ]


def test_names_and_keys_are_escaped_in_the_picture():
    fs = MemoryFileSystem()
    schema = Schema((ColumnSchema("<k>", STRING, False),), 1)
    with database.Database("/db", fs=fs) as db:
        table = db.create_table(definition("a&b", schema=schema))
        db.write(table, WriteBatch(pa.record_batch({"<k>": ["<&>", "z"]}), Op.INSERT))
        db.flush()
    picture = draw_layout(table_layout(fs, "/db", "a&b"))
    assert "'<&>' to 'z'" in "".join(ElementTree.fromstring(picture).itertext())


def test_rowsets_that_share_all_keys_stand_as_high_as_they_are_many():
    fs = MemoryFileSystem()
    with database.Database("/db", fs=fs) as db:
        table = db.create_table(definition())
        load(db, table, range(0, 3000, 3))
        for start in (1, 2):
            insert(db, table, range(start, 3000, 3))
            db.flush()
        load(db, table, range(10_000, 20_000))
    layout = table_layout(fs, "/db", "t")
    # 3,000 of 13,000 rows lie in three rowsets each.
    assert layout.average_height == pytest.approx((3000 * 3 + 10_000) / 13_000, rel=0.01)
    assert layout.average_height == layout.tablets[0].average_height


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(1, 50)), min_size=1, max_size=8))
def test_average_height_is_what_counting_says(spans):
    spans = [(min(a, b), max(a, b), rows) for a, b, rows in spans]
    starts, stops, counts = (np.array(column, np.float64) for column in zip(*spans))
    weighted = 0.0
    for low, high, rows in spans:
        # Halves of unit steps lie within no end but that of a rowset of one key.
        places = [low] if low == high else [n + 0.5 for n in range(low, high)]
        heights = [sum(a <= place <= b for a, b, _ in spans) for place in places]
        weighted += rows * sum(heights) / len(places)
    assert average_height(starts, stops, counts) == pytest.approx(weighted / counts.sum())


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=6))
def test_places_of_keys_are_in_key_order(keys):
    places = key_places(keys, keys)[0].tolist()
    assert all(0 <= place <= 1 for place in places)
    assert [p for _, p in sorted(zip(keys, places))] == sorted(places)


def test_a_bar_has_its_width_and_is_never_empty():
    chance = random.Random(1)
    for _ in range(200):
        start, stop = sorted((chance.random(), chance.random()))
        drawn = bar(RowSetSpan(1, 1, 1, "", "", start, stop), width := chance.randint(1, 50))
        assert len(drawn) == width
        assert "█" in drawn
    assert bar(RowSetSpan(1, 1, 1, "", "", 1.0, 1.0), 4) == "···█"
