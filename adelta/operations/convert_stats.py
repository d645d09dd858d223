"""The statistics of files that are alike, column by column: the text of each value is made once."""

from __future__ import annotations

from functools import partial
from operator import eq, le
from typing import TYPE_CHECKING, Any, cast

from adelta.kernel.statistics import bound_text, exact_text, json_object

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adelta.parquet.footer.file_statistics import LeafPlan
    from adelta.parquet.footer.footer_form import AlikeFooters, ChunkColumn

__all__ = ["alike_stats"]

_Tree = dict[str, Any]  # of column names, with places in a row of texts below them


def alike_stats(
    facts: AlikeFooters, names: Sequence[tuple[str, ...]], plans: Sequence[LeafPlan], prefix: int
) -> list[str] | None:
    """The `stats` of files, whose writer orders bytes, by what their footers say of columns.

    The columns have these `names`, are leaves, and if they have bounds these can be decoded. None
    where one of the files needs a closer look: a bound that means nothing, a column of nulls alone.
    """
    trees: tuple[_Tree, _Tree, _Tree] = ({}, {}, {})
    columns: list[Sequence[Any]] = [facts.num_rows]

    def put(tree: _Tree, steps: tuple[str, ...], texts: Sequence[Any]) -> None:
        for step in steps[:-1]:
            tree = tree.setdefault(step, {})
        tree[steps[-1]] = len(columns)
        columns.append(texts)

    for steps, plan, chunks in zip(names, plans, facts.chunks, strict=True):
        if chunks is None:
            continue
        if plan.least and chunks.lows is not None:
            bounds = _bounds(chunks, plan, prefix)
            if bounds is None:
                return None
            for tree, texts in zip(trees, bounds if plan.greatest else bounds[:1], strict=False):
                put(tree, steps, texts)
        if chunks.null_counts is not None:
            put(trees[2], steps, chunks.null_counts)
    order = [0]
    low, high, nulls = (json_object(_form(tree, order)) for tree in trees)
    form = f'{{"numRecords":%s,"minValues":{low},"maxValues":{high},"nullCount":{nulls}}}'
    return [*map(form.__mod__, zip(*(columns[place] for place in order), strict=True))]


def _form(tree: _Tree, order: list[int]) -> _Tree:
    """A tree that makes a format, and in `order` what is to be put into its places."""
    found: _Tree = {}
    for name, part in tree.items():
        key = name.replace("%", "%%")
        if isinstance(part, dict):
            found[key] = _form(part, order)
        else:
            order.append(part)
            found[key] = "%s"
    return found


def _bounds(
    chunks: ChunkColumn, plan: LeafPlan, prefix: int
) -> tuple[Sequence[str], Sequence[str]] | None:
    """The texts of the least values and of the greatest; None where one of them is unknown."""
    lows, highs, decoded = chunks.lows, chunks.highs, plan.decoded
    if lows is None or highs is None or decoded is None:
        return None
    if chunks.null_counts is not None and any(map(eq, chunks.null_counts, chunks.num_values)):
        return None
    try:
        least = {bound: decoded(bound) for bound in set(lows)}
        greatest = {bound: decoded(bound) for bound in set(highs)}
    except (ValueError, OverflowError):  # text that is none, days that Python does not count
        return None
    if not all(map(le, map(least.__getitem__, lows), map(greatest.__getitem__, highs))):
        return None
    low = _texts(least, partial(bound_text, prefix=prefix))
    high = _texts(greatest, partial(bound_text, prefix=prefix, is_greatest=True))
    if low is None or high is None:
        return None
    return [*map(low.__getitem__, lows)], [*map(high.__getitem__, highs)]


def _texts(
    values: dict[bytes, Any], bounded: Callable[[Any], str | None]
) -> dict[bytes, str] | None:
    """The texts of decoded bounds, which are of one type, if there is one of each."""
    make = exact_text(type(next(iter(values.values())))) or bounded
    texts = dict(zip(values, map(make, values.values()), strict=True))
    return None if None in texts.values() else cast("dict[bytes, str]", texts)
