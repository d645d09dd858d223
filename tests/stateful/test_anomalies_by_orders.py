"""The checker of histories, against every order that could explain what was read."""

from __future__ import annotations

import random
from itertools import count, permutations

import pytest

from tests.support.anomalies import Read, Txn, anomalies
from tests.support.depth import cases

KEYS = "xy"
HISTORIES = 400


def drawn(draw: random.Random) -> list[Txn]:
    """A few transactions; most read what an order would show them, and the last one everything."""
    number, names = draw.randint(2, 4), count()
    adds = [
        {key: [f"{key}{next(names)}" for _ in range(draw.randint(1, 2))] for key in some}
        for some in (draw.sample(KEYS, draw.randint(0, 2)) for _ in range(number))
    ]
    lists = {}
    for key in KEYS:
        order = draw.sample(adds, number) if draw.random() < 0.3 else adds
        lists[key] = [element for each in order for element in each.get(key, ())]
    txns: list[Txn] = []
    ends: dict[str, float] = {}
    for at, own in enumerate(adds):
        reads = []
        for key in draw.sample(KEYS, draw.randint(0, 2)):
            seen = lists[key][: draw.randint(0, len(lists[key]))]
            if draw.random() < 0.8:
                earlier = {e for each in adds[: draw.randint(0, number)] for e in each.get(key, ())}
                seen = [element for element in lists[key] if element in earlier]
            reads.append(Read.of_list(key, *(e for e in seen if e not in own.get(key, ()))))
        process = draw.choice(["", "p", "q"])
        begun = max(draw.randint(0, 6), ends.get(process, 0.0) if process else 0.0)
        ended = begun + draw.choice([0.5, 1.0, 3.0])
        ends[process] = ended
        txns.append(Txn(f"t{at}", reads, own, "committed", process, begun, ended))
    last = [Read.of_list(key, *lists[key]) for key in KEYS]
    return [*txns, Txn("end", last, begun=100, ended=101)]


def explains(order: tuple[Txn, ...]) -> bool:
    """Whether transactions, one after the other, see what they say, and nobody comes too late."""
    lists: dict[str, list[str]] = {}
    begun = float("-inf")
    for txn in order:
        if txn.ended <= begun:
            return False  # it had ended when one before it began
        begun = max(begun, txn.begun)
        for read in txn.reads:
            if lists.get(read.key, []) != [element for chain in read.chains for element in chain]:
                return False
        for key, elements in txn.writes.items():
            lists.setdefault(key, []).extend(elements)
    return True


@pytest.mark.parametrize("seed", range(cases(50, 1)))
def test_there_is_an_anomaly_where_no_order_explains_a_history_and_only_there(seed: int) -> None:
    draw, seen = random.Random(seed), set()
    for _ in range(HISTORIES):
        history = drawn(draw)
        found, explained = anomalies(history), any(map(explains, permutations(history)))
        assert bool(found) is not explained, [*map(str, history), *map(str, found)]
        seen |= {each.kind for each in found}
    assert len(seen) > 8
