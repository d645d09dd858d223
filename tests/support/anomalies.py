"""Which anomalies does a history of transactions show? In the manner of Elle, with Adya's names.

Transactions add elements to keys, each element once in the whole history, and read which elements
keys have. Elements stay, so that a read tells who came first: it follows whoever added what it
has seen (``wr``), and comes before whoever added what it has not (``rw``); elements that are seen
in an order were added in that order (``ww``). Beside these a process does one thing after the
other (``process``), and who has ended comes before who begins (``realtime``). Whatever goes in a
circle has no serial order:

    G0         of ww alone: writes of two transactions are mixed
    G1a        what a transaction added that failed was read
    G1b        part of what a transaction added to a key was read
    G1c        of ww and wr
    G-single   with one rw: a read that is half before, half after somebody; lost updates
    G-nonadjacent  with several, no two of them in a row: what snapshots do not allow either
    G2         with rw in a row: write skew, phantoms

The kind ends in ``-process`` or ``-realtime`` where there is no such circle without these edges.
Beside them there are ``lost update`` (two read a key, and add to it without having seen each
other's), ``duplicate`` and ``garbage`` (elements seen twice, or that nobody has added).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Anomaly", "Edge", "Graph", "Read", "Txn", "anomalies"]


@dataclass(frozen=True, slots=True)
class Read:
    """What was seen of a key: chains of elements, each in order, and nothing between chains.

    Of the elements in `untold` it says neither that they were there nor that they were not.
    """

    key: str
    chains: Sequence[Sequence[str]] = ()
    untold: frozenset[str] = frozenset()

    @property
    def seen(self) -> set[str]:
        return {element for chain in self.chains for element in chain}

    @classmethod
    def of_list(cls, key: str, *elements: str) -> Read:
        """A whole list, in order."""
        return cls(key, (elements,))


@dataclass(frozen=True, slots=True)
class Txn:
    """One transaction: what it has read before it added elements to keys.

    Its outcome is ``committed``, ``failed`` or ``unknown``: then it counts where somebody has seen
    what it added. Times are seconds of one clock.
    """

    name: str
    reads: Sequence[Read] = ()
    writes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    outcome: str = "committed"
    process: str = ""
    begun: float = float("-inf")
    ended: float = float("inf")
    version: int | None = None
    blind: bool = False

    def __str__(self) -> str:
        read = [f"r {each.key} {[list(c) for c in each.chains]}" for each in self.reads]
        added = [f"a {key} {', '.join(elements)}" for key, elements in self.writes.items()]
        return f"{self.name}({'; '.join([*read, *added])})"


class Edge(NamedTuple):
    """`first` came before `then`, for `why`: ww, wr, rw, process or realtime."""

    first: Txn
    why: str
    then: Txn


@dataclass(frozen=True, slots=True)
class Anomaly:
    """What was found, and where it is a circle, its edges."""

    kind: str
    text: str
    circle: tuple[Edge, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass
class Graph:
    """Who came before whom, by name."""

    txns: dict[str, Txn]
    edges: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, first: str, why: str, then: str) -> None:
        if first != then:
            self.edges[first, then].add(why)

    def all_edges(self) -> Iterator[Edge]:
        for (first, then), reasons in self.edges.items():
            for why in reasons:
                yield Edge(self.txns[first], why, self.txns[then])

    def without(self, left_out: Callable[[Edge], bool]) -> Graph:
        """The same but for some edges."""
        graph = Graph(self.txns)
        for edge in self.all_edges():
            if not left_out(edge):
                graph.add(edge.first.name, edge.why, edge.then.name)
        return graph

    def circles(self) -> list[Anomaly]:
        """For each kind of circle that there is a shortest one."""
        found: dict[str, Anomaly] = {}
        data = {"ww", "wr", "rw"}
        for more, suffix in ((), ""), (("process",), "-process"), (("realtime",), "-realtime"):
            data.update(more)
            for kind, circle in _circles(self._on_circles(data)):
                if any(each.startswith(kind) for each in found):
                    continue
                edges = tuple(
                    Edge(self.txns[first], why, self.txns[then]) for first, why, then in circle
                )
                text = "".join(f"{edge.first} -{edge.why}-> " for edge in edges)
                found[kind + suffix] = Anomaly(kind + suffix, f"{text}{edges[0].first}", edges)
        return list(found.values())

    def _on_circles(self, reasons: set[str]) -> _Next:
        """Where edges of these kinds lead, of transactions that may be on a circle."""
        edges = {
            pair: kinds & reasons
            for pair, kinds in self.edges.items()
            if not kinds.isdisjoint(reasons)
        }
        while True:
            left, reached = {a for a, _ in edges}, {b for _, b in edges}
            kept = {p: k for p, k in edges.items() if p[0] in reached and p[1] in left}
            if len(kept) == len(edges):
                break
            edges = kept
        following: _Next = defaultdict(list)
        for (first, then), kinds in edges.items():
            following[first] += [(why, then) for why in kinds]
        return following


_Next = dict[str, list[tuple[str, str]]]
_Step = tuple[str, str, str]
_Allowed = Callable[[str, str], bool]  # whether an edge may come after another one, by their kinds


def _circles(following: _Next) -> Iterator[tuple[str, list[_Step]]]:
    """A shortest circle of each kind."""
    steps = [(first, why, then) for first, onward in following.items() for why, then in onward]
    rows: dict[str, list[list[_Step]]] = {
        kind: [[step] for step in steps if step[1] == kind] for kind in ("ww", "wr", "rw")
    }
    in_a_row = [
        [step, (step[2], why, then)]
        for [step] in rows["rw"]
        for why, then in following.get(step[2], ())
        if why == "rw"
    ]
    kinds: dict[str, tuple[list[list[_Step]], _Allowed]] = {
        "G0": (rows["ww"], lambda _, why: why not in ("wr", "rw")),
        "G1c": (rows["wr"], lambda _, why: why != "rw"),
        "G-single": (rows["rw"], lambda _, why: why != "rw"),
        "G-nonadjacent": (rows["rw"], lambda before, why: not before == why == "rw"),
        "G2": (in_a_row, lambda _before, _why: True),
    }
    for kind, (begins, allowed) in kinds.items():
        best: list[_Step] | None = None
        for begin in begins:
            best = _circle(following, begin, allowed, len(best) if best else None) or best
        if best is not None and (kind != "G-nonadjacent" or len(_rw(best)) > 1):
            yield kind, best


def _rw(circle: list[_Step]) -> list[_Step]:
    return [step for step in circle if step[1] == "rw"]


def _circle(
    following: _Next, begin: list[_Step], allowed: _Allowed, shorter_than: int | None
) -> list[_Step] | None:
    """The shortest circle that begins with some edges, and goes on with edges that are allowed."""
    home, first = begin[0][0], begin[0][1]
    start = (begin[-1][2], begin[-1][1])
    if start[0] == home:
        return begin if shorter_than is None or len(begin) < shorter_than else None
    came: dict[tuple[str, str], tuple[tuple[str, str], _Step] | None] = {start: None}
    waiting = deque([(start, len(begin))])
    while waiting:
        (at, before), length = waiting.popleft()
        if shorter_than is not None and length + 1 >= shorter_than:
            return None
        for why, then in following.get(at, ()):
            if not allowed(before, why):
                continue
            if then == home and (len(begin) > 1 or not why == first == "rw"):
                return [*begin, *_back(came, (at, before)), (at, why, then)]
            if (then, why) not in came:
                came[then, why] = ((at, before), (at, why, then))
                waiting.append(((then, why), length + 1))
    return None


def _back(
    came: Mapping[tuple[str, str], tuple[tuple[str, str], _Step] | None], at: tuple[str, str]
) -> list[_Step]:
    steps: list[_Step] = []
    while (found := came[at]) is not None:
        at, step = found
        steps.append(step)
    return steps[::-1]


# ------------------------------------------------------------------------- from history to graph


def anomalies(
    history: Sequence[Txn], left_out: Callable[[Edge], bool] = lambda _edge: False
) -> list[Anomaly]:
    """Each kind of anomaly that a history shows, but for circles through edges `left_out`."""
    found, counted = _of_reads(history)
    graph = graph_of(counted)
    return [*found, *graph.without(left_out).circles()]


def _of_reads(history: Sequence[Txn]) -> tuple[list[Anomaly], list[Txn]]:
    """What single reads show, and the transactions that count as committed."""
    by = {e: txn for txn in history for elements in txn.writes.values() for e in elements}
    found: list[Anomaly] = []
    seen = {e for txn in history for read in txn.reads for e in read.seen}
    counted = [
        txn
        for txn in history
        if txn.outcome == "committed"
        or (txn.outcome == "unknown" and any(by[e] is txn for e in seen if e in by))
    ]
    for txn in counted:
        for read in txn.reads:
            found += _of_read(txn, read, by)
    found += _lost_updates(counted)
    return found, counted


def _of_read(txn: Txn, read: Read, by: Mapping[str, Txn]) -> Iterator[Anomaly]:
    seen = read.seen
    heads = [chain[0] for chain in read.chains if chain]
    if len(heads) != len(set(heads)) or any(len(c) != len(set(c)) for c in read.chains):
        yield Anomaly("duplicate", f"{txn} saw an element of {read.key} twice")
    for element in sorted(seen):
        writer = by.get(element)
        if writer is None or element not in writer.writes.get(read.key, ()):
            yield Anomaly("garbage", f"{txn} saw {element} in {read.key}, which nobody has added")
        elif writer.outcome == "failed":
            yield Anomaly("G1a", f"{txn} saw {element} of {writer}, which failed")
        elif missing := set(writer.writes[read.key]) - seen - read.untold:
            yield Anomaly("G1b", f"{txn} saw {element} without {sorted(missing)} of {writer}")


def _lost_updates(counted: Sequence[Txn]) -> Iterator[Anomaly]:
    adding: dict[str, list[tuple[Txn, Read]]] = defaultdict(list)
    for txn in counted:
        for read in txn.reads:
            if txn.writes.get(read.key):
                adding[read.key].append((txn, read))
    for key, both in adding.items():
        for at, (one, saw) in enumerate(both):
            for other, seen in both[:at]:
                theirs, ours = set(other.writes[key]), set(one.writes[key])
                if _misses(saw, theirs) and _misses(seen, ours):
                    yield Anomaly("lost update", f"{one} and {other} did not see each other")
                    return


def _misses(read: Read, elements: set[str]) -> bool:
    return elements.isdisjoint(read.seen) and not elements <= read.untold


def graph_of(counted: Sequence[Txn]) -> Graph:
    """Who came before whom."""
    graph = Graph({txn.name: txn for txn in counted})
    by = {e: txn.name for txn in counted for elements in txn.writes.values() for e in elements}
    added: dict[str, list[str]] = defaultdict(list)
    for txn in counted:
        for key, elements in txn.writes.items():
            added[key] += elements
    for txn in counted:
        for read in txn.reads:
            seen = read.seen
            for chain in read.chains:
                known = [by[e] for e in chain if e in by]
                for first, then in pairwise(known):
                    graph.add(first, "ww", then)
            for element in added[read.key]:
                if element in seen:
                    graph.add(by[element], "wr", txn.name)
                elif element not in read.untold:
                    graph.add(txn.name, "rw", by[element])
    _in_time(counted, graph)
    return graph


def _in_time(counted: Sequence[Txn], graph: Graph) -> None:
    """Who had ended when somebody began: the last ones, from which the others follow."""
    last: dict[str, str] = {}
    for txn in sorted(counted, key=lambda txn: txn.begun):
        if txn.process:
            if txn.process in last:
                graph.add(last[txn.process], "process", txn.name)
            last[txn.process] = txn.name
    events = [(txn.begun, 1, txn) for txn in counted]
    events += [(txn.ended, 0, txn) for txn in counted if txn.outcome == "committed"]
    frontier: set[str] = set()
    after: dict[str, set[str]] = {}
    for _, begins, txn in sorted(events, key=lambda event: event[:2]):
        if begins:
            after[txn.name] = set(frontier)
            for name in frontier:
                graph.add(name, "realtime", txn.name)
        else:
            frontier -= after.get(txn.name, set())
            frontier.add(txn.name)
