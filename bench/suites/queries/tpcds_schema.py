"""The 24 tables of TPC-DS for nyala: keys, distribution, and a loader.

The generator's Parquet files have the columns and their types; the keys are those of the specification (revision 3,
section 2). A sale and its return are found by the same item and order, so both tables are
distributed by the item: the join of the two stays within a bucket, and so does a join with `item` or `inventory`.

    store_sales    (ss_item_sk, ss_ticket_number)    HASH (ss_item_sk) INTO 2 BUCKETS
    store_returns  (sr_item_sk, sr_ticket_number)    HASH (sr_item_sk) INTO 2 BUCKETS
    item           (i_item_sk)                       HASH (i_item_sk)  INTO 2 BUCKETS
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ....driver.connection import Connection
from ....errors import OperationalError
from ....model.lazy_dataclass import dataclass
from ..model import sql_type

SCALE_FACTOR: Final = 0.01
"""The smallest at which most queries find something: 120,000 store sales, 1,000 customers, 2,000 items."""

BUCKETS: Final = 2


@dataclass(frozen=True, slots=True)
class TpcdsTable:
    """One table: the key columns in their order; `hashed` names the column that distributes the rows, if any."""

    name: str
    key: tuple[str, ...]
    hashed: str | None = None

    def create_table(self, columns: pa.Schema) -> str:
        """The CREATE TABLE statement for the columns of a Parquet file, those of the key first; others may be NULL."""
        lines = [f"{name} {sql_type(columns.field(name).type)} NOT NULL" for name in self.key]
        lines += [f"{field.name} {sql_type(field.type)}" for field in columns if field.name not in self.key]
        lines.append(f"PRIMARY KEY ({', '.join(self.key)})")
        statement = f"CREATE TABLE {self.name} (\n  " + ",\n  ".join(lines) + "\n)"
        if self.hashed is not None:
            statement += f"\nDISTRIBUTE BY HASH ({self.hashed}) INTO {BUCKETS} BUCKETS"
        return statement


TABLES: Final = (
    TpcdsTable("call_center", ("cc_call_center_sk",)),
    TpcdsTable("catalog_page", ("cp_catalog_page_sk",)),
    TpcdsTable("catalog_returns", ("cr_item_sk", "cr_order_number"), "cr_item_sk"),
    TpcdsTable("catalog_sales", ("cs_item_sk", "cs_order_number"), "cs_item_sk"),
    TpcdsTable("customer", ("c_customer_sk",), "c_customer_sk"),
    TpcdsTable("customer_address", ("ca_address_sk",), "ca_address_sk"),
    TpcdsTable("customer_demographics", ("cd_demo_sk",), "cd_demo_sk"),
    TpcdsTable("date_dim", ("d_date_sk",)),
    TpcdsTable("household_demographics", ("hd_demo_sk",)),
    TpcdsTable("income_band", ("ib_income_band_sk",)),
    TpcdsTable("inventory", ("inv_date_sk", "inv_item_sk", "inv_warehouse_sk"), "inv_item_sk"),
    TpcdsTable("item", ("i_item_sk",), "i_item_sk"),
    TpcdsTable("promotion", ("p_promo_sk",)),
    TpcdsTable("reason", ("r_reason_sk",)),
    TpcdsTable("ship_mode", ("sm_ship_mode_sk",)),
    TpcdsTable("store", ("s_store_sk",)),
    TpcdsTable("store_returns", ("sr_item_sk", "sr_ticket_number"), "sr_item_sk"),
    TpcdsTable("store_sales", ("ss_item_sk", "ss_ticket_number"), "ss_item_sk"),
    TpcdsTable("time_dim", ("t_time_sk",)),
    TpcdsTable("warehouse", ("w_warehouse_sk",)),
    TpcdsTable("web_page", ("wp_web_page_sk",)),
    TpcdsTable("web_returns", ("wr_item_sk", "wr_order_number"), "wr_item_sk"),
    TpcdsTable("web_sales", ("ws_item_sk", "ws_order_number"), "ws_item_sk"),
    TpcdsTable("web_site", ("web_site_sk",)),
)


def generate(directory: Path, scale: float = SCALE_FACTOR) -> Path:
    """Has `tpcgen-cli` write one Parquet file per table into a directory; returns the directory.

    Raises
    ------
    OperationalError
        If the generator fails.
    """
    program = Path(sys.executable).parent / "tpcgen-cli"
    command = [str(program), "tpcds", "parquet", "-s", str(scale), f"--output-dir={directory}", "--quiet"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise OperationalError(f"there is no {program}; try: pip install 'nyala[bench]'") from None
    except subprocess.CalledProcessError as error:
        raise OperationalError(f"tpcgen-cli failed: {error.stderr.strip()}") from None
    return directory


def load(connection: Connection, directory: Path) -> dict[str, int]:
    """Creates all tables and loads their files; returns the rows of each table."""
    counts = {}
    for spec in TABLES:
        path = directory / f"{spec.name}.parquet"
        connection.execute(spec.create_table(pq.read_schema(path)))
        counts[spec.name] = connection.load(spec.name, path)
    return counts
