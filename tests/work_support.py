"""Counts the work of a piece of Python: lines executed, which no other process on the machine changes."""

import sys
import threading


def lines(run):
    """The number of lines of Python that this thread, and those that it starts, execute in `run()`, each pass of a
    comprehension included."""
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    threading.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
        threading.settrace(before)
    return count


def growth(run, size):
    """The work of `run(2 * size)` as a multiple of that of `run(size)`: 2 where it is linear, 4 where it is
    quadratic."""
    run(size)  # what is imported and cached at first use is no work of the statement
    small = lines(lambda: run(size))
    return lines(lambda: run(2 * size)) / small
