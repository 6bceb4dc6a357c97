"""The progress bar: when it is drawn, and that nothing of it is left."""

import io

from hypothesis import given
from hypothesis import strategies as st
from nyala.executor.run.progress import Progress
from nyala.shell.progress_bar import DELAY, ProgressBar, draw

counts = st.integers(0, 10**12)


@given(counts, st.none() | counts, st.integers(0, 99), st.integers(0, 99), st.floats(0, 1e6), st.integers(0, 300))
def test_the_line_never_exceeds_the_screen(rows, expected, done, parts, seconds, width):
    line = draw(Progress(rows, expected, done, parts), seconds, width)
    assert len(line) <= width
    assert "\n" not in line


def test_it_comes_after_the_delay_and_goes_for_good():
    out, now = io.StringIO(), [0.0]
    with ProgressBar(out, lambda: now[0]) as bar:
        now[0] = DELAY / 2
        bar(Progress(1, 10))
        assert out.getvalue() == ""
        now[0] = DELAY * 2
        bar(Progress(5, 10))
        assert "50 %" in out.getvalue()
    assert out.getvalue().endswith("\r\x1b[K")
    left = out.getvalue()
    bar(Progress(9, 10))
    bar.stop()
    assert out.getvalue() == left
