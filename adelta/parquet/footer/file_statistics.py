"""Statistics of whole files by their footers alone: what a footer says surely, and no more.

* Bounds hold of every value, NaN included: writers leave NaN out, which Spark orders last, so that
  floats have no greatest value here, but of a writer that is known not to. A NaN for a bound says
  nothing.
* Texts and decimals, which old writers compared byte by byte with signs, have bounds in files of
  writers alone that are known to compare them as Parquet has it. INT96 has none.
* Rows without a list or a map are not told from those with an empty one, unless there are neither.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError
from adelta.parquet.faults import reading
from adelta.parquet.footer.encoded_bounds import bound_decoder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow.parquet as pq

    from adelta.parquet.footer.columns import ColumnNode
    from adelta.parquet.footer.footer_shape import ChunkFacts, FooterFacts

__all__ = [
    "FooterStatistics",
    "LeafPlan",
    "footer_statistics",
    "orders_bytes",
    "plan_leaf",
    "shape_statistics",
]

_ORDERS_BYTES = re.compile(
    r"parquet-cpp|parquet-rs|DuckDB|Polars|"
    r"parquet-mr version (?:1\.[1-9]\d|[2-9]|\d\d)"
)
_UNKNOWN = object()


class FooterStatistics(NamedTuple):
    """What is surely known of one column of a file; None of what is not."""

    min: Any = None
    max: Any = None
    null_count: int | None = None
    has_nan: bool = False


@dataclass(frozen=True, slots=True)
class LeafPlan:
    """Where the statistics of a column are, and what of them counts.

    `leaves` are Parquet's, of the physical `types`; one for a column that is a leaf itself, as
    `is_leaf` says. `decoded` makes a value of a bound as it is encoded; None where Arrow has to.
    """

    leaves: range
    types: tuple[str, ...]
    is_leaf: bool
    least: bool
    greatest: bool
    by_bytes: bool
    decoded: Callable[[bytes], Any] | None = None


def plan_leaf(
    node: ColumnNode, types: tuple[str, ...], *, bounded: bool, tells_nan: bool = False
) -> LeafPlan:
    """How to read the statistics of a column; `bounded` is whether its bounds are wanted.

    `types` are the physical types of its leaves. With `tells_nan` the writer of the file is known
    to have NaN for the greatest value wherever there is one, as Spark's has.
    """
    by_bytes = types[0] in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
    bounded = bounded and node.is_leaf and types[0] != "INT96"
    leaves = range(node.first_leaf, node.end_leaf)
    greatest = bounded and (tells_nan or not pa.types.is_floating(node.type))
    decoded = bound_decoder(types[0], node.type) if bounded else None
    return LeafPlan(leaves, types, node.is_leaf, bounded, greatest, by_bytes, decoded)


def footer_statistics(
    path: str, metadata: pq.FileMetaData, plans: Sequence[LeafPlan]
) -> list[FooterStatistics]:
    """What the footer of the object at `path` says of columns. CPU-heavy.

    Raises:
        InvalidTableError: the footer is damaged.
    """
    with reading(path):
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        bytes_are_ordered = orders_bytes(metadata)

        def chunk(group: Any, leaf: int, kind: str) -> _Chunk | None:
            return _told_by_arrow(_chunk(path, group, leaf, kind))

        return [_of_column(groups, plan, chunk, bytes_are_ordered) for plan in plans]


def orders_bytes(metadata: pq.FileMetaData) -> bool:
    """Whether the writer of a file compares texts and decimals as Parquet has it."""
    return _ORDERS_BYTES.match(metadata.created_by or "") is not None


def shape_statistics(facts: FooterFacts, plans: Sequence[LeafPlan]) -> list[FooterStatistics]:
    """As `footer_statistics`, of a footer that a shape has read, whose writer `orders_bytes`.

    Of plans with bounds each can be `decoded`.
    """

    def chunk(group: Sequence[ChunkFacts | None], leaf: int, _: str) -> _Chunk | None:
        return group[leaf]

    return [_of_column(facts.groups, plan, chunk, True, plan.decoded) for plan in plans]


class _Chunk(Protocol):
    """What is said of a chunk that has statistics; both bounds are there, or none."""

    @property
    def num_values(self) -> int: ...
    @property
    def null_count(self) -> int | None: ...
    @property
    def low(self) -> Any: ...
    @property
    def high(self) -> Any: ...


def _of_column(
    groups: Sequence[Any],
    plan: LeafPlan,
    look: Callable[[Any, int, str], _Chunk | None],
    bytes_are_ordered: bool,
    decoded: Callable[[bytes], Any] | None = None,
) -> FooterStatistics:
    if not plan.is_leaf:
        # A list that is empty, or is not there, is a null of each leaf below it.
        leaves = zip(plan.leaves, plan.types, strict=True)
        whole = any(_nulls(groups, leaf, kind, look) == 0 for leaf, kind in leaves)
        return FooterStatistics(null_count=0 if whole else None)
    (leaf,), (kind,) = plan.leaves, plan.types
    least: Any = None
    greatest: Any = None
    nulls: int | None = 0
    bounded = plan.least and (bytes_are_ordered or not plan.by_bytes)
    for group in groups:
        found = look(group, leaf, kind)
        if found is None:
            return FooterStatistics()
        count = found.null_count
        nulls = None if nulls is None or count is None else nulls + count
        if not bounded or (count is not None and count == found.num_values):
            continue
        low, high = _bounds(found, decoded)
        if low is _UNKNOWN:
            bounded = False
            continue
        least = low if least is None or low < least else least
        greatest = high if greatest is None or high > greatest else greatest
    if not bounded or least is None:
        return FooterStatistics(null_count=nulls)
    if isinstance(least, float) and least == 0:
        least = -0.0
    return FooterStatistics(least, greatest if plan.greatest else None, nulls)


def _bounds(found: _Chunk, decoded: Callable[[bytes], Any] | None) -> tuple[Any, Any]:
    """The bounds of a chunk that mean something; else twice that they are unknown."""
    try:
        low, high = found.low, found.high
        if decoded is not None and low is not None and high is not None:
            low, high = decoded(low), decoded(high)
    except (ValueError, OverflowError):  # text that is none, days that Python does not count
        return _UNKNOWN, _UNKNOWN
    if low is None or high is None or not low <= high:  # NaN, and the bounds of damaged writers
        return _UNKNOWN, _UNKNOWN
    return low, high


def _nulls(
    groups: Sequence[Any], leaf: int, kind: str, look: Callable[[Any, int, str], _Chunk | None]
) -> int | None:
    total = 0
    for group in groups:
        found = look(group, leaf, kind)
        if found is None or found.null_count is None:
            return None
        total += found.null_count
    return total


class _ArrowChunk:
    """What Arrow says of a chunk; its bounds cost much, and are made where they are asked for."""

    __slots__ = ("_found", "null_count", "num_values")

    def __init__(self, num_values: int, found: Any) -> None:
        self.num_values: int = num_values
        self.null_count: int | None = found.null_count if found.has_null_count else None
        self._found = found

    @property
    def low(self) -> Any:
        return self._found.min if self._found.has_min_max else None

    @property
    def high(self) -> Any:
        return self._found.max if self._found.has_min_max else None


def _told_by_arrow(chunk: Any) -> _Chunk | None:
    found = chunk.statistics
    return None if found is None else _ArrowChunk(chunk.num_values, found)


def _chunk(path: str, group: Any, leaf: int, expected: str) -> Any:
    """What a footer says of a chunk; Arrow ends the process where it is of another type."""
    chunk = group.column(leaf)
    if chunk.physical_type != expected:
        raise InvalidTableError(
            f"{path}: a chunk of its footer is of {chunk.physical_type}, where the schema says "
            f"{expected}. The footer is damaged: restore the object, or remove it."
        )
    return chunk
