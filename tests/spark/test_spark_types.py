"""Types exchanged with Spark: in schemas, in rows read and in rows written. Starts no Spark."""

import datetime
import decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.errors import NotSupportedError, NumericOutOfRange
from nyala.model.types import BINARY, DECIMAL, INTERVAL, NULL, STRING, TIMESTAMP, DataType, Interval, Kind
from nyala.spark import types
from pyspark.sql import types as spark_types

STORABLE = [DataType(kind) for kind in Kind if kind not in (Kind.DECIMAL, Kind.INTERVAL, Kind.NULL)]
ALL = st.one_of(
    st.sampled_from(STORABLE),
    st.integers(1, 38).flatmap(lambda p: st.builds(DECIMAL, st.just(p), st.integers(0, p))),
)
COLUMNS = st.lists(st.tuples(st.text(min_size=1), ALL, st.booleans()), min_size=1, unique_by=lambda column: column[0])


@given(COLUMNS, st.booleans())
def test_what_is_said_to_spark_comes_back_and_is_the_arrow_that_spark_wants(columns, zoned):
    told = types.spark_schema(columns, zoned)
    assert types.from_spark(told) == columns
    assert types.arrow_of(told).equals(types.arrow_schema(columns, zoned))
    assert all(types.fits(type_, again) for (_, type_, _), (_, again, _) in zip(columns, types.from_spark(told)))


@given(st.lists(st.none() | st.datetimes(), min_size=1))
def test_a_timestamp_is_the_same_clock_or_the_moment_in_utc(moments):
    batch = pa.record_batch([pa.array(moments, pa.timestamp("us"))], ["t"])
    columns = [("t", TIMESTAMP, True)]
    assert types.to_spark(batch, types.arrow_schema(columns)).column(0).to_pylist() == moments
    zoned = types.to_spark(batch, types.arrow_schema(columns, zoned=True)).column(0)
    assert zoned.cast(pa.int64()) == batch.column(0).cast(pa.int64())
    assert zoned.type.tz == "UTC"


def test_intervals_and_bare_nulls_are_text():
    columns = [("i", INTERVAL, True), ("n", NULL, True)]
    assert [field.dataType.simpleString() for field in types.spark_schema(columns)] == ["string", "string"]
    spans = pa.array([(14, -3, 4_000_000), None], pa.month_day_nano_interval())
    batch = pa.record_batch([spans, pa.nulls(2)], ["i", "n"])
    found = types.to_spark(batch, types.arrow_schema(columns)).to_pydict()
    assert found == {"i": [str(Interval(14, -3, 4_000)), None], "n": [None, None]}


def test_encoded_forms_come_as_plain_ones():
    columns = [("s", STRING, True), ("b", BINARY, True)]
    arrays = [pa.array(["a", None]).dictionary_encode(), pa.array([b"x", b""], pa.large_binary())]
    found = types.to_spark(pa.record_batch(arrays, ["s", "b"]), types.arrow_schema(columns))
    assert found.schema.types == [pa.string(), pa.binary()]
    assert found.to_pydict() == {"s": ["a", None], "b": [b"x", b""]}


def test_nothing_is_lost_in_silence():
    wanted = pa.schema([pa.field("x", pa.int32(), nullable=False)])
    with pytest.raises(NumericOutOfRange, match="x has NULLs"):
        types.to_spark(pa.record_batch([pa.array([1, None], pa.int32())], ["x"]), wanted)
    with pytest.raises(NumericOutOfRange, match="x, int64 as int32"):
        types.to_spark(pa.record_batch([pa.array([1 << 40])], ["x"]), wanted)
    with pytest.raises(NumericOutOfRange):
        values = pa.array([decimal.Decimal("1.25")])
        types.to_spark(pa.record_batch([values], ["x"]), pa.schema([("x", pa.decimal128(10, 1))]))
    with pytest.raises(NotSupportedError, match="2 columns were read"):
        types.to_spark(pa.record_batch([[1], [2]], ["x", "y"]), wanted)


def test_spark_s_own_types_have_counterparts_or_an_error_that_names_them():
    def read(type_):
        ((_, found, _),) = types.from_spark(spark_types.StructType([spark_types.StructField("x", type_)]))
        return found

    assert read(spark_types.TimestampType()) == read(spark_types.TimestampNTZType()) == TIMESTAMP
    assert str(read(spark_types.VarcharType(7))) == str(read(spark_types.CharType(7))) == "VARCHAR(7)"
    assert read(spark_types.StringType("UNICODE_CI")) == STRING
    nested = spark_types.ArrayType(spark_types.LongType())
    for type_ in (nested, spark_types.DayTimeIntervalType(), spark_types.TimeType(), spark_types.NullType()):
        with pytest.raises(NotSupportedError, match=r"column x is .* cast it"):
            read(type_)


def test_dates_keep_their_day():
    day = datetime.date(1582, 10, 4)  # Spark counts days of the proleptic calendar, too
    schema = types.arrow_schema([("d", DataType(Kind.DATE), True)])
    assert types.to_spark(pa.record_batch([pa.array([day])], ["d"]), schema).column(0).to_pylist() == [day]
