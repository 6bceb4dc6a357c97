"""The process from which Spark forks its Python workers, with what the tasks of nyala need imported already.

    spark.python.daemon.module    nyala.spark.daemon

PySpark's own daemon imports nothing before it forks, so that every new worker spends most of a second on it, and there
is a new one after every task that failed. Its reason is that Arrow and pandas start threads as they are imported: those
are jemalloc's and OpenBLAS's, and both put things right in a forked child. nyala's modules start none, and connect to
nothing.
"""

from __future__ import annotations

import gc

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

from .source import batch_reader, stream_reader  # noqa: F401
from .writing import batch, stream  # noqa: F401

if __name__ == "__main__":
    gc.freeze()  # what is here stays: a worker that looks for garbage among it would copy its pages
    manager()
