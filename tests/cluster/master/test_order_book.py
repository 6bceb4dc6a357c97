import random

from nyala.cluster.master.balance.order_book import LAST_PAUSE, PER_SERVER, REPORT_PAUSE, OrderBook
from nyala.cluster.master.balance.orders import AddReplica, DeleteReplica, RemoveReplica
from nyala.cluster.raft.messages import Peer

DELETE = DeleteReplica("t", "a", 7)


def test_an_order_is_given_once_until_it_is_due_again() -> None:
    book = OrderBook(random.Random(0))
    assert book.take_due([DELETE, DELETE], 0.0) == [DELETE]
    assert book.take_due([DELETE], 100.0) == []
    book.carried_out(DELETE, 100.0)
    assert book.take_due([DELETE], 100.0 + REPORT_PAUSE / 2) == []
    assert book.take_due([DELETE], 100.0 + REPORT_PAUSE) == [DELETE]


def test_failures_make_pauses_longer() -> None:
    book, now, pauses = OrderBook(random.Random(0)), 0.0, []
    assert book.take_due([DELETE], now) == [DELETE]
    for failures in range(1, 12):
        assert book.failed(DELETE, now) == failures
        began = now
        while not book.take_due([DELETE], now):
            now += 0.05
        pauses.append(now - began)
    assert pauses[0] < 0.5
    assert 0.7 * LAST_PAUSE < pauses[-1] < 1.3 * LAST_PAUSE


def test_what_is_not_wanted_any_more_is_forgotten() -> None:
    book = OrderBook(random.Random(0))
    book.take_due([DELETE], 0.0)
    assert book.take_due([], 0.0) == []
    assert len(book) == 1  # it is in progress
    book.failed(DELETE, 0.0)
    assert book.take_due([], 0.0) == []
    assert len(book) == 0
    assert book.take_due([DELETE], 0.0) == [DELETE]


def test_another_step_of_the_same_work_does_not_wait() -> None:
    book = OrderBook(random.Random(0))
    peer = Peer("b", "b:1")
    add, remove = AddReplica("t", "a", peer, 1), RemoveReplica("t", "a", peer, 2)
    assert book.take_due([add], 0.0) == [add]
    assert book.take_due([remove], 0.0) == []
    book.carried_out(add, 0.0)
    assert book.take_due([remove], 0.0) == [remove]


def test_a_server_that_does_not_answer_holds_up_no_other() -> None:
    book = OrderBook(random.Random(0))
    orders = [DeleteReplica(f"t{i}", "a", 7) for i in range(20)] + [DeleteReplica("t", "b", 7)]
    given = book.take_due(orders, 0.0)
    assert [order.server for order in given] == ["a"] * PER_SERVER + ["b"]
    book.carried_out(given[0], 0.0)
    assert [order.server for order in book.take_due(orders, 0.0)] == ["a"]
