"""The checker of histories finds each anomaly in a small history that has it, and no other."""

from __future__ import annotations

import pytest

from tests.support.anomalies import Read, Txn, anomalies


def r(key: str, *elements: str) -> Read:
    return Read.of_list(key, *elements)


def done(name: str, *reads: Read, outcome: str = "committed", **writes: str) -> Txn:
    """A transaction that is under way all the time; what it adds to a key is said in words."""
    return Txn(name, reads, {key: text.split() for key, text in writes.items()}, outcome)


def at(begun: float, txn: Txn, process: str = "") -> Txn:
    return Txn(txn.name, txn.reads, txn.writes, txn.outcome, process, begun, begun + 0.5)


SHOWN = {
    "nothing: one after the other": (
        [done("a", x="1"), done("b", r("x", "1"), x="2"), done("c", r("x", "1", "2"))],
        set(),
    ),
    "nothing: a blind write nobody sees": ([done("a", x="1"), done("b", r("x"))], set()),
    "nothing: reads of one moment": (
        [done("a", x="1", y="2"), done("b", r("x"), r("y")), done("c", r("x", "1"), r("y", "2"))],
        set(),
    ),
    "nothing: what became of it is unknown, and nobody has seen it": (
        [done("a", r("y"), outcome="unknown", x="1"), done("b", r("x"), y="2")],
        set(),
    ),
    "write cycle": (
        [
            done("a", x="1", y="1'"),
            done("b", x="2", y="2'"),
            done("c", r("x", "1", "2")),
            done("d", r("y", "2'", "1'")),
        ],
        {"G0"},
    ),
    "readers disagree about the order of a key": (
        [
            done("a", x="1"),
            done("b", x="2"),
            done("c", r("x", "1", "2")),
            done("d", r("x", "2", "1")),
        ],
        {"G0"},
    ),
    "aborted read": ([done("a", outcome="failed", x="1"), done("b", r("x", "1"))], {"G1a"}),
    "intermediate read": ([done("a", x="1 2"), done("b", r("x", "1"))], {"G1b", "G-single"}),
    "circular flow of information": (
        [done("a", r("y", "2"), x="1"), done("b", r("x", "1"), y="2")],
        {"G1c"},
    ),
    "fractured read": (
        [done("a", x="1", y="2"), done("b", r("x", "1"), r("y"))],
        {"G-single"},
    ),
    "lost update": (
        [done("a", r("x"), x="1"), done("b", r("x"), x="2"), done("c", r("x", "1", "2"))],
        {"lost update", "G-single", "G2"},
    ),
    "long fork": (
        [
            done("a", x="1"),
            done("b", y="2"),
            done("c", r("x", "1"), r("y")),
            done("d", r("x"), r("y", "2")),
        ],
        {"G-nonadjacent"},
    ),
    "write skew": (
        [done("a", r("x"), r("y"), x="1"), done("b", r("x"), r("y"), y="2")],
        {"G2"},
    ),
    "a reader between a blind write and who overlooked it": (
        [
            done("overlooks", r("x", "0"), x="1"),
            done("blind", x="2"),
            done("zero", x="0"),
            done("reader", Read("x", [["0"], ["2"]])),
        ],
        {"G2"},
    ),
    "seen though its outcome is unknown": (
        [
            done("a", x="1", y="2", outcome="unknown"),
            done("b", r("x", "1"), r("y")),
        ],
        {"G-single"},
    ),
    "duplicate": ([done("a", x="1"), done("b", r("x", "1", "1"))], {"duplicate"}),
    "garbage": ([done("a", y="1"), done("b", r("x", "1"))], {"garbage"}),
    "a lost write": ([at(0, done("a", x="1")), at(1, done("b", r("x")))], {"G-single-realtime"}),
    "what one's own session has written is gone": (
        [
            at(0, done("a", x="1"), "p"),
            Txn("b", [r("x")], process="p", begun=0.1, ended=2),
        ],
        {"G-single-process"},
    ),
    "read before it was written": (
        [at(0, done("b", r("x", "1"))), at(1, done("a", x="1"))],
        {"G1c-realtime"},
    ),
    "one reader is behind an earlier one": (
        [
            Txn("a", (), {"x": ["1"]}, begun=0, ended=9),
            at(1, done("b", r("x", "1"))),
            at(2, done("c", r("x"))),
        ],
        {"G-single-realtime"},
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_history_shows_these_anomalies_and_no_others(name: str) -> None:
    history, expected = SHOWN[name]
    found = anomalies(history)
    assert {each.kind for each in found} == expected, [str(each) for each in found]
    for each in found:
        for one, next_one in zip(each.circle, [*each.circle[1:], *each.circle[:1]], strict=True):
            assert one.then.name == next_one.first.name


def test_circles_through_edges_that_are_left_out_are_not_found() -> None:
    history, _ = SHOWN["write skew"]
    assert not anomalies(history, lambda edge: edge.why == "rw" and edge.first.name == "a")
    assert anomalies(history, lambda edge: edge.why == "ww")


def test_of_an_element_that_a_read_cannot_tell_of_nothing_follows() -> None:
    torn = [done("a", x="1", y="2"), done("b", r("x", "1"), Read("y", untold=frozenset({"2"})))]
    assert not anomalies(torn)


def test_who_ended_comes_before_who_begins_later_also_over_others_in_between() -> None:
    writes = [at(number, done(f"t{number}", x=str(number))) for number in range(20)]
    late = at(30, done("late", Read("x", [[str(number)] for number in range(1, 20)])))
    assert {each.kind for each in anomalies([*writes, late])} == {"G-single-realtime"}
