"""The page cache and the open files: bounded, least recently used first, safe for threads."""

from __future__ import annotations

import threading

from columnar_support import WatchedFileSystem
from hypothesis import given
from hypothesis import strategies as st
from nyala.storage.files.file_handles import FileHandles
from nyala.storage.files.page_cache import PageCache


@given(st.lists(st.tuples(st.sampled_from("gpf"), st.integers(1, 3), st.integers(0, 4), st.integers(0, 70))))
def test_cache_is_a_bounded_lru(steps: list[tuple[str, int, int, int]]) -> None:
    cache, model = PageCache(100), {}
    for step, owner, page, cost in steps:
        key = (owner, page)
        if step == "g":
            assert cache.get(owner, page) == model.get(key)
            if key in model:
                model[key] = model.pop(key)
        elif step == "p":
            model.pop(key, None)
            model[key] = cost
            cache.put(owner, page, cost, cost)
            while sum(model.values()) > 100:
                del model[next(iter(model))]
        else:
            cache.forget(owner)
            model = {k: v for k, v in model.items() if k[0] != owner}
        assert cache.size == sum(model.values())
        assert len(cache) == len(model)


def test_a_page_larger_than_the_cache_is_not_kept() -> None:
    cache = PageCache(10)
    cache.put(1, 0, "small", 10)
    cache.put(1, 1, "large", 11)
    assert (cache.get(1, 0), cache.get(1, 1)) == ("small", None)


def test_no_more_files_are_open_than_allowed() -> None:
    fs = WatchedFileSystem()
    for name in "abcd":
        fs.put(name, name.encode() * 3)
    handles = FileHandles(fs, limit=2)
    for name in "abcdabca":
        assert handles.read_at(name, 1, 2) == name.encode() * 2
        assert fs.open_files <= 2
    handles.forget("a")
    assert len(handles) == 1
    assert handles.size("b") == 3


def test_a_file_is_not_closed_under_a_reader() -> None:
    fs = WatchedFileSystem()
    for name in "ab":
        fs.put(name, b"data")
    handles = FileHandles(fs, limit=1)
    errors: list[BaseException] = []

    def read() -> None:
        try:
            for i in range(500):
                assert handles.read_at("ab"[i % 2], 0, 4) == b"data"
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert fs.open_files == 1
