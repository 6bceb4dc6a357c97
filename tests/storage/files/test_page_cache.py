"""The page cache and the open files: bounded, what is used stays, safe for threads."""

from __future__ import annotations

import threading

from columnar_support import WatchedFileSystem
from hypothesis import given
from hypothesis import strategies as st
from nyala.storage.files.file_handles import FileHandles
from nyala.storage.files.page_cache import PageCache


@given(st.lists(st.tuples(st.sampled_from("gpfh"), st.integers(1, 3), st.integers(0, 4), st.integers(0, 70))))
def test_cache_is_bounded_and_gives_used_pages_a_second_chance(steps: list[tuple[str, int, int, int]]) -> None:
    cache = PageCache(100)
    held = {1: 0, 2: 0, 3: 0}
    model: dict[tuple[int, int], tuple[int, bool]] = {}  # cost, and was it used; in the order in which they may go
    for step, owner, page, cost in steps:
        key = (owner, page)
        if step == "g":
            assert cache.get(owner, page) == model.get(key, (None,))[0]
            if key in model:
                model[key] = (model[key][0], True)
        elif step in "ph":
            if step == "p":
                model.pop(key, None)
                model[key] = (cost, False)
                cache.put(owner, page, cost, cost)
            else:
                held[owner] += cost
                cache.hold(owner, cost)
            while model and sum(held.values()) + sum(cost for cost, _ in model.values()) > 100:
                first = next(iter(model))
                cost, used = model.pop(first)
                if used:
                    model[first] = (cost, False)
        else:
            cache.forget(owner)
            held[owner] = 0
            model = {k: v for k, v in model.items() if k[0] != owner}
        assert cache.size == sum(held.values()) + sum(cost for cost, _ in model.values())
        assert len(cache) == len(model)
        for owner in (1, 2, 3):
            pages = {page: entry.value for page, entry in cache.pages(owner).items()}
            assert pages == {page: cost for (of, page), (cost, _) in model.items() if of == owner}


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
