"""Encodings and compressions: each against plain Python, what AUTO takes, and what a damaged page is called."""

from __future__ import annotations

import bz2
import gzip
import threading
from base64 import b64encode
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from columnar_support import WatchedFileSystem, arrow_array
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import CorruptionError, InvalidTableDefinition, UnsupportedFormat
from nyala.model.predicates import InList, Range
from nyala.model.schema import ColumnSchema, Compression, Encoding, Schema, check_encoding, possible_encodings
from nyala.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    INT,
    STRING,
    DataType,
)
from nyala.model.vectors.vector import Dict, Flat, Narrow, Text
from nyala.storage.columns.column_file import (
    AS_THEY_ARE,
    BITS,
    FRONTS,
    LENGTHS,
    PAGE,
    RUNS,
    Footer,
    decode_footer,
    encode_footer,
    encode_tail,
)
from nyala.storage.columns.column_reader import ColumnReader
from nyala.storage.columns.column_writer import write_column
from nyala.storage.columns.compression import GZIP, LZ4, UNCOMPRESSED, ZSTD, compress, decompress
from nyala.storage.columns.encodings import (
    CODE_DTYPES,
    decode_page,
    encode_dictionary_codes,
    encode_floats,
    encode_integers,
    encode_text_page,
)
from nyala.storage.columns.page_layouts import (
    offsets_of,
    pack_bits,
    pack_runs,
    run_starts,
    shared_lengths,
    unpack_bits,
    unpack_runs,
    with_fronts,
    without_fronts,
)
from nyala.storage.database import Database
from nyala.storage.files.file_handles import FileHandles
from nyala.storage.files.page_cache import PageCache
from tablet_support import definition, read, rowset_loader

PATH = "c.col"
OLD_FILES = Path(__file__).parent / "old_files"


def column(
    type_: DataType, encoding: Encoding = Encoding.AUTO, compression: Compression = Compression.AUTO
) -> ColumnSchema:
    return ColumnSchema("c", type_, id=5, encoding=encoding, compression=compression)


def write(spec: ColumnSchema, values: pa.Array, **options: Any) -> WatchedFileSystem:
    fs = WatchedFileSystem()
    write_column(fs, PATH, spec, values, **options)
    return fs


def reader(fs: WatchedFileSystem, type_: DataType, rows: int) -> ColumnReader:
    return ColumnReader(FileHandles(fs), PATH, 5, type_, rows, PageCache(1 << 20))


def written(spec: ColumnSchema, values: pa.Array, **options: Any) -> ColumnReader:
    """The file of these values, read back and found equal."""
    opened = reader(write(spec, values, **options), spec.type, len(values))
    found = opened.read(0, len(values), None).to_arrow()
    found.validate(full=True)
    assert found.equals(values)
    return opened


# ---- layouts, each against plain Python --------------------------------------------------------------------------


@given(st.integers(0, 64), st.data())
def test_planes_hold_each_bit_of_each_row(bits: int, data: Any) -> None:
    values = data.draw(st.lists(st.integers(0, (1 << bits) - 1), max_size=40))
    dtype = next(d for d in CODE_DTYPES if bits <= 8 * d.itemsize)
    packed = pack_bits(np.array(values, dtype), bits)
    size = -(-len(values) // 8)
    for bit in range(bits):
        plane = int.from_bytes(packed[bit * size : (bit + 1) * size], "little")
        assert [plane >> row & 1 for row in range(len(values))] == [value >> bit & 1 for value in values]
    unpacked = unpack_bits(np.frombuffer(packed, np.uint8), len(values), bits, dtype)
    assert unpacked.dtype == dtype
    assert unpacked.tolist() == values


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 9)), max_size=20))
def test_runs_are_those_of_groupby(runs: list[tuple[int, int]]) -> None:
    values = [value for value, length in runs for _ in range(length)]
    codes = np.array(values, "<u2")
    packed = pack_runs(codes, run_starts(codes))
    expected = [(value, len(list(rows))) for value, rows in groupby(values)]
    assert np.frombuffer(packed, "<u2").tolist() == [v for v, _ in expected] + [n - 1 for _, n in expected]
    assert unpack_runs(pa.py_buffer(packed), 0, len(values), codes.dtype).tolist() == values


def test_a_run_may_have_65_536_rows() -> None:
    codes = np.full(65_536, 9, np.uint8)
    packed = pack_runs(codes, run_starts(codes))
    assert packed.hex(" ") == "09 ff ff"
    assert np.array_equal(unpack_runs(pa.py_buffer(packed), 0, 65_536, codes.dtype), codes)


def test_a_run_too_long_for_its_length_is_stored_as_several() -> None:
    codes = np.repeat(np.array([9, 8, 8], np.uint8), [3, 131_072, 1])
    packed = pack_runs(codes, run_starts(codes))
    assert packed.hex(" ") == "09 08 08 08 02 00 fc ff ff ff 03 00"
    assert np.array_equal(unpack_runs(pa.py_buffer(packed), 0, len(codes), codes.dtype), codes)


def common_prefix(left: bytes, right: bytes) -> int:
    return next((i for i, (a, b) in enumerate(zip(left, right)) if a != b), min(len(left), len(right)))


@given(st.lists(st.text("ab", max_size=6).map(str.encode) | st.binary(max_size=3), max_size=50))
def test_fronts_are_common_prefixes_with_the_restart_row(texts: list[bytes]) -> None:
    data, offsets = np.frombuffer(b"".join(texts), np.uint8), offsets_of(np.array([len(t) for t in texts], np.int32))
    shared = shared_lengths(data, offsets)
    for row, text in enumerate(texts):
        restart = row // 16 * 16
        assert shared[row] == (0 if row == restart else common_prefix(texts[restart], text))
    rest = without_fronts(data, offsets, shared)
    assert rest.tobytes() == b"".join(text[n:] for text, n in zip(texts, shared.tolist(), strict=True))
    whole, places = with_fronts(rest, np.diff(offsets) - shared, shared)
    assert (whole.tobytes(), places.tolist()) == (data.tobytes(), offsets.tolist())


def test_more_than_255_bytes_are_not_shared() -> None:
    texts = ["x" * 700] * 40
    opened = written(column(STRING, Encoding.PREFIX, Compression.NONE), pa.array(texts))
    assert opened.footer.pages["layout"].tolist() == [FRONTS]
    assert int(opened.footer.pages["raw"][0]) == 3 * 700 + 37 * 445 + 40 * (2 + 1)  # suffix lengths take two bytes


# ---- whole columns -----------------------------------------------------------------------------------------------


@st.composite
def repetitive(draw: st.DrawFn) -> tuple[DataType, list[Any]]:
    """Runs of integers, or texts in ascending order, with NULLs."""
    if draw(st.booleans()):
        type_ = draw(st.sampled_from([BOOLEAN, INT, BIGINT, DATE, DECIMAL(15, 2)]))
        value = st.booleans() if type_ is BOOLEAN else st.sampled_from([-70_000, 0, 1, 300])
    else:
        type_ = draw(st.sampled_from([STRING, BINARY]))
        parts = st.sampled_from(["harbour", "harbours", "harbour/éclair", "lake", "", "l" * 300])
        value = parts if type_ is STRING else parts.map(str.encode)
    runs = draw(st.lists(st.tuples(value | st.none(), st.integers(1, 40)), min_size=1, max_size=12))
    return type_, [value for value, length in runs for _ in range(length)]


@settings(max_examples=examples(200), deadline=None)
@given(repetitive(), st.sampled_from([8, 64, 65_536]), st.sampled_from(list(Compression)), st.data())
def test_every_encoding_gives_the_same_rows(
    made: tuple[DataType, list[Any]], page_rows: int, compression: Compression, data: Any
) -> None:
    type_, physical = made
    encoding = data.draw(st.sampled_from([Encoding.AUTO, *possible_encodings(type_)]))
    expected = arrow_array(type_, physical)
    opened = written(column(type_, encoding, compression), expected, page_rows=page_rows)
    start = data.draw(st.integers(0, len(physical) - 1))
    stop = data.draw(st.integers(start + 1, len(physical)))
    rows = np.array(data.draw(st.lists(st.integers(0, stop - start - 1), max_size=8)), np.intp)
    assert opened.read(start, stop, None).to_arrow().equals(expected[start:stop])
    assert opened.read(start, stop, rows).to_arrow().equals(expected[start:stop].take(pa.array(rows)))


@pytest.mark.parametrize(
    ("type_", "encoding", "physical", "form"),
    [
        (INT, Encoding.RLE, [5] * 30, Narrow),
        (BOOLEAN, Encoding.RLE, [True] * 30, Narrow),
        (BOOLEAN, Encoding.BIT_SHUFFLE, [True, False], Narrow),
        (DATE, Encoding.BIT_SHUFFLE, [1, 9000], Narrow),
        (DOUBLE, Encoding.BIT_SHUFFLE, [1.5, -2.0], Flat),
        (STRING, Encoding.PREFIX, ["harbour", "harbours"], Text),
        (BINARY, Encoding.PREFIX, [b"\xff", b"\0"], Text),
    ],
)
def test_pages_are_handed_out_in_forms_that_all_know(
    type_: DataType, encoding: Encoding, physical: list[Any], form: type
) -> None:
    assert isinstance(written(column(type_, encoding), arrow_array(type_, physical)).page(0), form)


def test_bounds_of_the_pages_do_not_depend_on_the_encoding() -> None:
    values = arrow_array(INT, [3, None, 3, 3, 900, -4, None, None])
    tables = [
        written(column(INT, encoding), values, page_rows=4).footer.pages[["nulls", "low", "high"]].tolist()
        for encoding in possible_encodings(INT)
    ]
    assert tables == [[(1, 3, 3), (2, -4, 900)]] * 4


@pytest.mark.parametrize("name", ["codes", "dict", "texts", "floats"])
def test_files_from_before_layouts_had_numbers_are_read(name: str) -> None:
    """`tests/storage/columns/old_files` holds what the first writer of format version 1 wrote."""
    type_, physical = {
        "codes": (INT, [100, None, 103] + [100] * 40),
        "dict": (STRING, ["b", "a", None, "b"]),
        "texts": (STRING, ["ab", None, "c", "abc" * 20]),
        "floats": (DOUBLE, [1.5, None]),
    }[name]
    fs = WatchedFileSystem()
    fs.put(PATH, bytearray((OLD_FILES / f"{name}.col").read_bytes()))
    assert reader(fs, type_, len(physical)).read(0, len(physical), None).to_arrow().to_pylist() == physical


def test_scans_find_the_same_rows_whatever_the_encoding() -> None:
    """One table, in which the same numbers and texts lie in every encoding; keys too."""
    rows = 3_000
    rng = np.random.default_rng(11)
    numbers, texts = np.repeat(rng.integers(-40, 400, rows // 10), 10), [f"path/{i // 7:04d}" for i in range(rows)]
    columns = [("a", STRING, Encoding.PREFIX), ("b", INT, Encoding.RLE)]
    columns += [(f"n_{e.value}", BIGINT, e) for e in possible_encodings(BIGINT)]
    columns += [(f"t_{e.value}", STRING, e) for e in possible_encodings(STRING)]
    schema = Schema(tuple(ColumnSchema(n, t, n not in "ab", encoding=e) for n, t, e in columns), 2)
    values: dict[str, pa.Array] = {"a": pa.array(texts), "b": pa.array([i % 7 for i in range(rows)], pa.int32())}
    for name, type_, _ in columns[2:]:
        values[name] = pa.array(numbers) if type_ is BIGINT else pa.array(texts)
    with Database(":memory:") as db:
        table = db.create_table(definition(schema=schema))
        with rowset_loader(db, table) as loader:
            loader.append(pa.table(values))
            loader.finish()
        wanted = [(t, i % 7) for i, (t, n) in enumerate(zip(texts, numbers.tolist())) if 10 <= n < 90]
        for encoding in possible_encodings(BIGINT):
            between = Range(f"n_{encoding.value}", 10, 90, upper_inclusive=False)
            assert read(db, table, ("a", "b"), (between,)) == wanted
        some = tuple(sorted({texts[0], texts[1234]}))
        wanted = [(t, i % 7) for i, t in enumerate(texts) if t in some]
        for name in ("a", *(f"t_{e.value}" for e in possible_encodings(STRING))):
            assert read(db, table, ("a", "b"), (InList(name, some),)) == wanted
        assert read(db, table, ("n_RLE",), (Range("a", texts[70], texts[70]), Range("b", 3, 3))) == [(numbers[73],)]


# ---- compression -------------------------------------------------------------------------------------------------

CODECS = [Compression.LZ4, Compression.ZSTD, Compression.GZIP, Compression.BZ2]


@given(st.binary(max_size=300), st.sampled_from([*Compression]), st.integers(1, 20))
def test_what_is_packed_unpacks(data: bytes, compression: Compression, times: int) -> None:
    page = data * times
    stored, number = compress(page, compression)
    assert len(stored) <= len(page)
    assert decompress(stored, len(page), number).to_pybytes() == page
    assert number != UNCOMPRESSED or stored == page


def test_gzip_and_bzip2_are_the_formats_of_those_names() -> None:
    page = b"lighthouse " * 50
    assert gzip.decompress(compress(page, Compression.GZIP)[0]) == page
    assert bz2.decompress(compress(page, Compression.BZ2)[0]) == page
    assert compress(page, Compression.ZSTD)[0][:4].hex(" ") == "28 b5 2f fd"  # RFC 8878, section 3.1.1


@pytest.mark.parametrize("compression", CODECS)
def test_bytes_that_do_not_unpack_are_an_error(compression: Compression) -> None:
    page = b"lighthouse " * 50
    stored, number = compress(page, compression)
    for damaged, raw in [(stored[:-5], len(page)), (stored, len(page) - 1), (b"\xff" * 30, len(page))]:
        with pytest.raises((ValueError, OSError)):
            decompress(damaged, raw, number)
    with pytest.raises(ValueError, match="compression 9 is unknown"):
        decompress(stored, len(page), 9)


def test_codecs_serve_several_threads() -> None:
    pages = [bytes([i]) * 40_000 + bytes(range(256)) * i for i in range(1, 20)]
    packed = [(page, *compress(page, c)) for page in pages for c in CODECS]
    wrong: list[int] = []

    def unpack() -> None:
        for _ in range(5):
            for page, stored, number in packed:
                if decompress(stored, len(page), number).to_pybytes() != page:
                    wrong.append(number)
                if compress(page, Compression.GZIP)[1] != GZIP:
                    wrong.append(GZIP)

    threads = [threading.Thread(target=unpack) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# ---- AUTO --------------------------------------------------------------------------------------------------------


def chosen(values: pa.Array, type_: DataType, compression: Compression = Compression.AUTO) -> tuple[Any, set[int], Any]:
    """(encoding, layouts of the pages, compressions of the pages) of a column that AUTO encodes."""
    footer = written(column(type_, compression=compression), values).footer
    return footer.encoding, set(footer.pages["layout"].tolist()), set(footer.pages["compression"].tolist())


def words(rows: int, seed: int = 7) -> pa.Array:
    """Sentences of eight words of a small vocabulary, nearly all different."""
    rng = np.random.default_rng(seed)
    vocabulary = np.array([rng.bytes(4).hex() for _ in range(200)])
    picked = vocabulary[rng.integers(0, 200, (rows, 8))]
    return pa.array([" ".join(row) for row in picked.tolist()])


def test_long_runs_are_stored_as_runs() -> None:
    runs = np.repeat(np.random.default_rng(5).integers(0, 10_000, 40), 500).astype(np.int32)
    assert chosen(pa.array(runs), INT) == (Encoding.RLE, {RUNS}, {LZ4})


def test_numbers_without_runs_stay_codes() -> None:
    numbers = np.random.default_rng(5).integers(0, 200, 5_000).astype(np.int32)
    assert chosen(pa.array(numbers), INT) == (Encoding.FRAME_OF_REFERENCE, {AS_THEY_ARE}, {UNCOMPRESSED})
    pairs = np.repeat(numbers, 2)  # runs, but too short to pay
    assert chosen(pa.array(pairs), INT)[0] is Encoding.FRAME_OF_REFERENCE


def test_small_numbers_become_bits_where_they_would_be_compressed_anyway() -> None:
    rng = np.random.default_rng(5)
    digits = pa.array(rng.integers(0, 8, 5_000).astype(np.int32))
    assert chosen(digits, INT) == (Encoding.BIT_SHUFFLE, {BITS}, {UNCOMPRESSED})
    assert chosen(digits, INT, Compression.NONE)[0] is Encoding.FRAME_OF_REFERENCE  # is read as it lies
    wide = pa.array((rng.integers(0, 8, 5_000) * 1_000).astype(np.int32))
    assert chosen(wide, INT) == (Encoding.FRAME_OF_REFERENCE, {AS_THEY_ARE}, {LZ4})


def test_few_texts_get_a_dictionary_as_ever() -> None:
    rng = np.random.default_rng(5)
    modes = pa.array(np.array(["AIR", "MAIL", "RAIL", "SHIP", "TRUCK"])[rng.integers(0, 5, 5_000)].tolist())
    assert chosen(modes, STRING) == (Encoding.DICT, {BITS}, {UNCOMPRESSED})
    assert chosen(modes, STRING, Compression.NONE) == (Encoding.DICT, {AS_THEY_ARE}, {UNCOMPRESSED})


def test_codes_under_nulls_may_lie_above_those_of_a_page() -> None:
    codes, present = np.array([200, 3, 1], np.uint8), np.array([False, True, True])
    made = encode_dictionary_codes(codes, present, bits=True)
    assert (made.low, made.high, made.body.hex(" ")) == (1, 3, "06 00 00 00 00 00 00 00 06 02")
    fields = record(nulls=1, low=1, high=3, width=1, layout=BITS)
    texts = pa.array(["a", "b", "c", "d"])
    found = decode_page(pa.py_buffer(made.body), 3, STRING, Encoding.DICT, fields, texts)
    assert found.to_arrow().to_pylist() == [None, "d", "b"]


def test_sentences_keep_lengths_and_are_packed_by_zstd() -> None:
    assert chosen(words(3_000), STRING) == (Encoding.PREFIX, {LENGTHS}, {ZSTD})


def test_sorted_texts_share_their_fronts() -> None:
    folders = [f"/{n:02d}/" + np.random.default_rng(n).bytes(30).hex() for n in range(100)]
    rng = np.random.default_rng(1)
    files = pa.array([f"{folder}/{rng.bytes(2).hex()}" for folder in folders for _ in range(64)])
    assert chosen(files, STRING, Compression.NONE)[:2] == (Encoding.PREFIX, {FRONTS})


def test_noise_is_not_packed() -> None:
    rng = np.random.default_rng(5)
    noise = pa.array([rng.bytes(40) for _ in range(1_000)])
    assert chosen(noise, BINARY)[2] == {UNCOMPRESSED}


def test_texts_of_a_narrow_alphabet_are_packed_where_that_saves_a_third() -> None:
    rng = np.random.default_rng(5)
    base64 = pa.array([b64encode(rng.bytes(75)).decode() for _ in range(1_000)])
    assert chosen(base64, STRING)[2] == {UNCOMPRESSED}
    digits = pa.array([rng.bytes(50).hex() for _ in range(1_000)])
    assert chosen(digits, STRING)[2] == {ZSTD}


@pytest.mark.parametrize("run", [1, 10])
@pytest.mark.parametrize("rows", [50_000, 200_000])
def test_a_dictionary_is_made_of_values_that_come_again_however_they_lie(rows: int, run: int) -> None:
    some = [f"number {n}" for n in range(rows // 40)]
    rng = np.random.default_rng(5)
    places = np.repeat(rng.integers(0, len(some), rows // run), run)
    assert chosen(pa.array(some).take(pa.array(places)), STRING)[0] is Encoding.DICT
    ever_new = pa.array([f"number {n}" for n in range(rows)])
    assert chosen(ever_new, STRING)[0] is not Encoding.DICT


@pytest.mark.parametrize("compression", CODECS)
def test_a_named_compression_is_kept_whatever_the_encoding(compression: Compression) -> None:
    number = {Compression.LZ4: LZ4, Compression.ZSTD: ZSTD, Compression.GZIP: GZIP, Compression.BZ2: 4}[compression]
    assert chosen(words(1_000), STRING, compression)[2] == {number}
    spec = column(INT, Encoding.FRAME_OF_REFERENCE, compression)
    assert written(spec, pa.array([1, 2] * 500, pa.int32())).footer.pages["compression"].tolist() == [number]


# ---- what cannot be ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "encoding", "possible"),
    [
        (DOUBLE, Encoding.RLE, "PLAIN, BIT_SHUFFLE"),
        (INT, Encoding.PREFIX, "FRAME_OF_REFERENCE, RLE, BIT_SHUFFLE, PLAIN"),
        (BOOLEAN, Encoding.DICT, "FRAME_OF_REFERENCE, RLE, BIT_SHUFFLE, PLAIN"),
        (STRING, Encoding.BIT_SHUFFLE, "DICT, PREFIX, PLAIN"),
        (DECIMAL(20, 2), Encoding.RLE, "PLAIN"),
    ],
)
def test_an_encoding_must_suit_the_type(type_: DataType, encoding: Encoding, possible: str) -> None:
    with pytest.raises(InvalidTableDefinition) as caught:
        check_encoding(column(type_, encoding))
    assert str(caught.value) == f"column c: {type_} cannot be stored as {encoding.value}; there are {possible}"


def record(**fields: int) -> Any:
    found = np.zeros(1, PAGE)
    for name, value in fields.items():
        found[name] = value
    return found[0]


def test_no_table_is_made_with_an_encoding_that_a_column_cannot_have() -> None:
    schema = Schema((ColumnSchema("k", INT, nullable=False), ColumnSchema("v", DOUBLE, encoding=Encoding.RLE)), 1)
    with Database(":memory:") as db:
        with pytest.raises(InvalidTableDefinition, match="column v: DOUBLE cannot be stored as RLE; there are PLAIN"):
            db.create_table(definition(schema=schema))
        assert list(db.tables()) == []


@pytest.mark.parametrize(
    ("type_", "encoding", "page", "fields", "message"),
    [
        (
            INT,
            Encoding.BIT_SHUFFLE,
            b"\1\1\1",
            {"layout": BITS, "width": 1, "high": 3},
            "3 bytes of planes instead of 2",
        ),
        (INT, Encoding.RLE, b"\1\1\0", {"layout": RUNS, "width": 1}, "runs of 2 rows instead of 4"),
        (INT, Encoding.RLE, b"\1\3\0\0", {"layout": RUNS, "width": 1}, "1 bytes are over"),
        (INT, Encoding.RLE, b"\1\1\1\1", {"layout": 9, "width": 1}, "page layout 9 is unknown for numbers"),
        (STRING, Encoding.PREFIX, b"\1\1\1\1ab", {"layout": LENGTHS, "width": 1}, "2 bytes of text instead of 4"),
        (STRING, Encoding.PREFIX, b"\1\0\0\0\0\2\0\0a", {"layout": FRONTS, "width": 1}, "shares more than there is"),
        (STRING, Encoding.PREFIX, b"\1\0\0\0\0\1\0\0", {"layout": FRONTS, "width": 1}, "0 bytes of text instead of 1"),
        (STRING, Encoding.PREFIX, b"\1\1\1\1abcd", {"layout": RUNS, "width": 1}, "layout 2 is unknown for texts"),
    ],
)
def test_a_page_that_is_not_what_its_record_says(
    type_: DataType, encoding: Encoding, page: bytes, fields: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        decode_page(pa.py_buffer(page), 4, type_, encoding, record(**fields), None)


def _rewritten(fs: WatchedFileSystem, type_: DataType, change: Any) -> None:
    """The file with another footer, under right checksums: what a faulty or newer writer would leave."""
    data = bytes(fs.get(PATH))
    size = int.from_bytes(data[-12:-8], "little")
    footer: Footer = decode_footer(data[-12 - size : -12], type_, PATH)
    changed = change(footer, encode_footer)
    fs.put(PATH, bytearray(data[: -12 - size] + changed + encode_tail(changed)))


def test_a_page_that_does_not_decode_is_named() -> None:
    fs = write(column(INT, Encoding.RLE, Compression.NONE), pa.array([7] * 8 + [9] * 8, pa.int32()), page_rows=8)

    def swap(footer: Footer, encode: Any) -> bytes:
        footer = Footer(**{name: getattr(footer, name) for name in Footer.__slots__} | {"pages": footer.pages.copy()})
        footer.pages["layout"][1] = 77
        return bytes(encode(footer))

    _rewritten(fs, INT, swap)
    opened = reader(fs, INT, 16)
    assert opened.read(0, 8, None).to_arrow().to_pylist() == [7] * 8
    with pytest.raises(CorruptionError, match=r"c\.col: page 1 at offset 19: does not decode: page layout 77"):
        opened.read(8, 16, None)


def test_an_encoding_of_a_newer_nyala_is_not_called_damage() -> None:
    fs = write(column(INT, Encoding.RLE), pa.array([7] * 8, pa.int32()))
    _rewritten(fs, INT, lambda footer, encode: bytes(encode(footer)).replace(b"\xa3RLE", b"\xa3NEW"))
    with pytest.raises(UnsupportedFormat, match=r"c\.col: encoding NEW; this nyala reads AUTO, PLAIN,"):
        _ = reader(fs, INT, 8).footer


def test_encoders_leave_their_input_alone() -> None:
    page, present = np.array([5, 7, 9]), np.array([True, False, True])
    page.flags.writeable = present.flags.writeable = False
    for encoding in possible_encodings(BIGINT):
        encode_integers(page, present, encoding, page.dtype)
    for encoding in possible_encodings(DOUBLE):
        encode_floats(page.astype(np.float64), present, encoding)
    texts = pa.array(["a", None])
    assert encode_text_page(texts, Encoding.PREFIX).nulls == 1
    assert texts.to_pylist() == ["a", None]


def test_a_dictionary_is_the_same_under_every_compression() -> None:
    values = pa.array(["harbour", "lake", None, "lake"] * 100)
    for compression in Compression:
        page = written(column(STRING, Encoding.DICT, compression), values).page(0)
        assert isinstance(page, Dict)
        assert page.dictionary.to_pylist() == ["harbour", "lake"]
