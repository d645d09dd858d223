"""Whatever is skipped, a scan has just the rows that a filter in plain Python keeps."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adelta
from adelta.read import opener
from adelta.storage.memory import MemoryStore
from tests.support.data_tables import described, inline_vector, opened, put_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("f", pa.float64()),
        ("d", pa.decimal128(12, 2)),
        ("s", pa.string()),
        ("t", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("p", pa.string()),
    ]
)
START = datetime(1500, 1, 1, tzinfo=UTC)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3) | st.sampled_from([-(1 << 63), (1 << 63) - 1]),
    "f": st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 2.0, 1e300, math.inf, math.nan]),
    "d": st.integers(-300, 300).map(lambda n: Decimal(n).scaleb(-2))
    | st.just(Decimal("9999999999.99")),
    "s": st.text("az\u007f\u00e9\uffff\U0001f600", max_size=4)
    | st.just("z" * 31 + "\U0010ffff" * 4),
    "t": st.integers(0, 10**6).map(lambda n: START + timedelta(days=n // 5, microseconds=n % 1500)),
    "day": st.integers(0, 300_000).map(lambda n: date(1400, 1, 1) + timedelta(n)),
    "p": st.sampled_from(["a", "b", "\U0001f600 %"]),
}
rows = st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()})
files = st.lists(rows, min_size=1, max_size=9)

Row = dict[str, Any]
Truth = bool | None
Predicate = tuple[str, "Callable[[Row], Truth]"]


def literal(name: str, value: Any) -> str:
    match name:
        case "f":
            return f"cast('{value}' as double)".replace("nan", "NaN").replace("inf", "Infinity")
        case "s" | "p":
            return f"'{value}'"
        case "t":
            return f"timestamp'{value:%Y-%m-%d %H:%M:%S.%f}'"
        case "day":
            return f"date'{value}'"
    return str(value)


def key(name: str, value: Any) -> Any:
    """What orders values as Spark does: NaN last, texts by their bytes in UTF-8."""
    if name == "f":
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@st.composite
def conditions(draw: st.DrawFn) -> Predicate:
    name = draw(st.sampled_from(list(VALUES)))
    kind = draw(st.sampled_from(["compare", "null", "in", "like"]))
    if kind == "null":
        wanted = draw(st.booleans())
        return (
            f"{name} is {'' if wanted else 'not '}null",
            lambda row: (row[name] is None) == wanted,
        )
    if kind == "like":
        prefix = draw(VALUES["s"])[:2]
        return (
            f"s like '{prefix}%'",
            lambda row: None if row["s"] is None else row["s"].startswith(prefix),
        )
    if kind == "in":
        options = draw(st.lists(VALUES[name], min_size=1, max_size=3))
        keys = [key(name, option) for option in options]
        text = ", ".join(literal(name, option) for option in options)
        return (
            f"{name} in ({text})",
            lambda row: None if row[name] is None else key(name, row[name]) in keys,
        )
    op, value = draw(st.sampled_from(list(OPERATORS))), draw(VALUES[name])
    return (
        f"{name} {op} {literal(name, value)}",
        lambda row: (
            None if row[name] is None else OPERATORS[op](key(name, row[name]), key(name, value))
        ),
    )


def negated(one: Predicate) -> Predicate:
    def truth(row: Row) -> Truth:
        found = one[1](row)
        return None if found is None else not found

    return f"not ({one[0]})", truth


def both(one: Predicate, other: Predicate) -> Predicate:
    def truth(row: Row) -> Truth:
        found = (one[1](row), other[1](row))
        return False if False in found else None if None in found else True

    return f"({one[0]}) and ({other[0]})", truth


def either(one: Predicate, other: Predicate) -> Predicate:
    def truth(row: Row) -> Truth:
        found = (one[1](row), other[1](row))
        return True if True in found else None if None in found else False

    return f"({one[0]}) or ({other[0]})", truth


predicates = st.recursive(
    conditions(),
    lambda inner: st.one_of(
        inner.map(negated), st.builds(both, inner, inner), st.builds(either, inner, inner)
    ),
    max_leaves=5,
)


def shown(rows: list[Row]) -> list[str]:
    """The rows as Arrow shows them, without their order, and without the sign of a zero."""
    same = ({**row, "f": None if row["f"] is None else row["f"] + 0.0} for row in rows)
    return sorted(map(repr, pa.Table.from_pylist(list(same), SCHEMA).to_pylist()))


async def written(contents: list[list[Row]], deleted: list[int]) -> tuple[adelta.Table, list[Row]]:
    """A table of these files: the first with statistics by adelta, the others in row groups."""
    store = MemoryStore()
    table = await opened(store, described(SCHEMA, partition_by=["p"]))
    await adelta.write_table(table, pa.Table.from_pylist(contents[0], SCHEMA))
    expected = list(contents[0])
    adds = []
    for number, content in enumerate(contents[1:]):
        content = [{**row, "p": content[0]["p"]} for row in content]
        gone = sorted({row for row in deleted if row < len(content)})
        expected += [row for at, row in enumerate(content) if at not in gone]
        action: Row = {"partitionValues": {"p": content[0]["p"]}}
        if gone:
            action["deletionVector"] = inline_vector(gone)
        rows = pa.Table.from_pylist(content, SCHEMA).drop_columns(["p"])
        path = f"{number}.parquet"
        adds.append(await put_data(store, path, rows, row_group_size=3, action=action))
    return await opened(store, adds, start=2), expected


@pytest.fixture(params=["files", "rows"])
def skipped(request: pytest.FixtureRequest) -> Iterator[None]:
    """What else a predicate leaves out: rows around others only where a file is large."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "rows":
            patch.setattr(opener, "_NOT_WORTH_A_LOOK", 0)
        yield


@pytest.mark.usefixtures("skipped")
@settings(max_examples=60, deadline=None)
@given(
    contents=st.lists(files, min_size=1, max_size=4),
    deleted=st.lists(st.integers(0, 8), max_size=3),
    predicate=predicates,
)
def test_a_scan_has_the_rows_that_python_keeps(
    contents: list[list[Row]], deleted: list[int], predicate: Predicate
) -> None:
    text, truth = predicate

    async def run() -> tuple[list[Row], list[Row], int, int]:
        table, expected = await written(contents, deleted)
        async with table:
            snapshot = await table.snapshot()
            assert (await snapshot.scan().to_arrow()).num_rows == len(expected)
            scan = snapshot.scan(where=text)
            narrow = await snapshot.scan(columns=["i"], where=text).to_arrow()
            found = (await scan.to_arrow()).to_pylist()
            return found, expected, await scan.count(), narrow.num_rows

    found, expected, count, narrow = asyncio.run(run())
    kept = [row for row in expected if truth(row) is True]
    assert shown(found) == shown(kept), text
    assert count == narrow == len(kept)
