"""Connections to stores in memory and in a directory."""

import nyala
import pytest


@pytest.fixture
def connection():
    with nyala.connect(":memory:", threads=2) as connection:
        yield connection


@pytest.fixture
def items(connection):
    """A table of five rows and all kinds of columns."""
    connection.execute(
        """CREATE TABLE items (
             id INT PRIMARY KEY, name STRING NOT NULL, price DECIMAL(15,2), weight DOUBLE, sold DATE, seen TIMESTAMP,
             good BOOLEAN, raw BINARY)"""
    )
    connection.execute(
        """INSERT INTO items VALUES
             (1, 'one', 1.50, 0.5, DATE '2020-02-29', TIMESTAMP '2020-01-02 03:04:05', TRUE, NULL),
             (2, 'two', NULL, NULL, NULL, NULL, NULL, NULL),
             (3, 'three', -3.25, 1e30, DATE '1969-12-31', TIMESTAMP '1969-12-31 23:59:59', FALSE, NULL),
             (4, 'four', 0.00, 0.0, DATE '1970-01-01', TIMESTAMP '1970-01-01 00:00:00', FALSE, NULL),
             (5, 'five', 99999999.99, -1.0, DATE '9999-12-31', TIMESTAMP '2262-01-01 00:00:00', TRUE, NULL)"""
    )
    return connection
