"""The process from which Spark forks its Python workers, with the imports of nyala's tasks done in advance.

    spark.python.daemon.module    nyala.spark.daemon

PySpark's own daemon imports nothing before it forks. Every new worker therefore spends most of a second on imports, and
each failed task is followed by a new worker. PySpark avoids them because Arrow and pandas start threads when they are
imported: those are jemalloc's and OpenBLAS's, and both recover in a forked child. nyala's modules start no threads and
connect to nothing.
"""

from __future__ import annotations

import gc

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

from .source import batch_reader, stream_reader  # noqa: F401
from .writing import batch, stream  # noqa: F401

if __name__ == "__main__":
    gc.freeze()  # a worker's garbage collection would copy the pages of these objects
    manager()
