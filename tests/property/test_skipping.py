"""Data skipping end to end: no row that a predicate keeps is ever lost.

Tables of random rows are written by deltalake and by adelta, each with its own statistics: of one
partition or several, with and without a checkpoint. Others have no statistics in the log, but
several row groups, a page index and Bloom filters in every file, by deltalake and by Arrow. Random
predicates are then asked of them, and of a model in plain Python that knows no files: NaN is
greater than any number and equal to itself, texts are ordered by their UTF-8 bytes, and whatever
meets a null is neither true nor false.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import deltalake
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adelta.sync
from adelta.read import index_skipping
from tests.support import logs
from tests.support.depth import cases

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

UTC = dt.UTC
SCHEMA = pa.schema(
    {
        "part": pa.string(),
        "byte": pa.int8(),
        "short": pa.int16(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "small": pa.decimal128(7, 2),
        "large": pa.decimal128(38, 10),
        "text": pa.string(),
        "bytes": pa.binary(),
        "flag": pa.bool_(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "inner": pa.struct([("x", pa.int64()), ("s", pa.string())]),
    }
)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
ODD: dict[str, list[Any]] = {
    "byte": [-128, 127, 0],
    "short": [-(2**15), 2**15 - 1, 0],
    "int": [-(2**31), 2**31 - 1, 0],
    "long": [-(2**63), 2**63 - 1, 2**53 + 1, 0],
    "float": [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5],
    "double": [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, 5e-324],
    "small": [Decimal("99999.99"), Decimal("-99999.99"), Decimal("0.00")],
    "large": [Decimal("9" * 28 + "." + "9" * 10), Decimal("-0.0000000001"), Decimal("0E-10")],
    "text": ["", "z" * 40, "\U0001f600" * 20, "\uffff" * 33, "é", "a\x00b", "it's"],
    "bytes": [b"", b"\xff" * 40, b"\x00"],
    "flag": [True, False],
    "day": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 4), dt.date(1970, 1, 1)],
    "at": [
        dt.datetime(1883, 11, 18, 12, 3, 58, 1, UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        dt.datetime(2024, 2, 29, 0, 0, 0, 999, UTC),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
    ],
}
COLUMNS = (*ODD, "part", "inner.x", "inner.s")


def _around(name: str, center: int, source: random.Random) -> Any:
    """A value near `center`, so that files hold different ranges."""
    near = center + source.randint(-3, 3)
    match name:
        case "byte" | "short" | "int" | "long" | "inner.x":
            return near
        case "float" | "double":
            return near / 2
        case "small":
            return Decimal(near).scaleb(-2)
        case "large":
            return Decimal(near).scaleb(-10)
        case "text" | "inner.s":
            return f"{chr(ord('a') + near % 26)}{near}"
        case "bytes":
            return bytes([near % 256, source.randint(0, 255)])
        case "flag":
            return near % 2 == 0
        case "day":
            return dt.date(1970, 1, 1) + dt.timedelta(days=near)
        case "at":
            return EPOCH + dt.timedelta(milliseconds=near, microseconds=source.choice([0, 1, 999]))
    return f"p {near % 3}"


def _rows(source: random.Random, part: str) -> list[dict[str, Any]]:
    center = source.randint(-60, 60)
    nulls, odd = source.choice([0, 0.1, 1]), source.choice([0, 0.05, 0.5])

    def value(name: str) -> Any:
        if source.random() < nulls:
            return None
        if source.random() < odd and name in ODD:
            return source.choice(ODD[name])
        return _around(name, center, source)

    rows = []
    for _ in range(source.randint(1, 12)):
        row = {name: value(name) for name in SCHEMA.names if name not in ("part", "inner")}
        row["inner"] = (
            None if source.random() < 0.1 else {"x": value("inner.x"), "s": value("inner.s")}
        )
        rows.append(row | {"part": part})
    return rows


@dataclass(frozen=True, slots=True, repr=False)
class Written:
    snapshot: Any
    rows: list[dict[str, Any]]

    def __repr__(self) -> str:
        return f"<table of {len(self.rows)} rows>"


def _write(path: Path, seed: int) -> Written:
    """A table of a dozen files; the seed decides on everything."""
    source = random.Random(seed)
    writer, partitioned, checkpointed = ("deltalake", "adelta")[seed % 2], seed & 2, seed & 4
    everything: list[dict[str, Any]] = []
    by = ["part"] if partitioned else None
    for number in range(12):
        rows = _rows(source, f"p {number % 3}")
        everything += rows
        data = pa.Table.from_pylist(rows, schema=SCHEMA)
        if writer == "adelta":
            adelta.sync.write_table(str(path), data, partition_by=by)
        else:
            deltalake.write_deltalake(str(path), data, mode="append", partition_by=by)
    if checkpointed:
        deltalake.DeltaTable(str(path)).create_checkpoint()
    return Written(adelta.sync.open_table(str(path)).snapshot(), everything)


LEAVES = [name for name in SCHEMA.names if name not in ("flag", "inner")]
BLOOM = {"ndv": 100, "fpp": 0.01}


def _write_indexed(path: Path, seed: int) -> Written:
    """A table of four files, each with a page index and Bloom filters for all columns."""
    source = random.Random(seed)
    everything: list[dict[str, Any]] = []
    files: list[pa.Table] = []
    for number in range(4):
        parts = [_rows(source, f"p {number % 3}") for _ in range(source.randint(2, 5))]
        rows = [row for part in parts for row in part]
        everything += rows
        files.append(pa.Table.from_pylist(rows, schema=SCHEMA))
    size = source.randint(4, 12)
    if seed % 2:
        bloom = deltalake.BloomFilterProperties(True, fpp=BLOOM["fpp"], ndv=100)
        properties = deltalake.WriterProperties(
            max_row_group_size=size,
            data_page_row_count_limit=2,
            write_batch_size=2,
            default_column_properties=deltalake.ColumnProperties(
                dictionary_enabled=source.random() < 0.5, bloom_filter_properties=bloom
            ),
        )
        for data in files:
            deltalake.write_deltalake(
                str(path),
                data,
                mode="append",
                writer_properties=properties,
                configuration={"delta.dataSkippingNumIndexedCols": "0"},
            )
    else:
        adelta.sync.write_table(str(path), SCHEMA.empty_table())
        blooms: dict[str, Any] = dict.fromkeys([*LEAVES, "inner.x", "inner.s"], BLOOM)
        adds = []
        for number, data in enumerate(files):
            pq.write_table(
                data,
                path / f"{number}.parquet",
                row_group_size=size,
                write_page_index=True,
                data_page_size=1,
                write_batch_size=2,
                use_dictionary=source.random() < 0.5,
                store_decimal_as_integer=source.random() < 0.5,
                data_page_version=source.choice(["1.0", "2.0"]),
                bloom_filter_options=blooms,
            )
            adds.append(logs.add(f"{number}.parquet", size=data.nbytes))
        commit = b"\n".join(orjson.dumps(line) for line in adds)
        (path / "_delta_log" / f"{1:020d}.json").write_bytes(commit)
    return Written(adelta.sync.open_table(str(path)).snapshot(), everything)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Written]:
    folder = tmp_path_factory.mktemp("tables")
    return [_write(folder / str(seed), seed) for seed in range(8)]


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> list[Written]:
    folder = tmp_path_factory.mktemp("indexed")
    return [_write_indexed(folder / str(seed), seed) for seed in range(8)]


# ------------------------------------------------------------------------------- the predicates

Truth = bool | None
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Predicate:
    text: str
    holds: Callable[[Row], Truth]

    def __repr__(self) -> str:
        return self.text


def _get(row: Row, name: str) -> Any:
    outer, dot, inner = name.partition(".")
    value = row[outer]
    return value if not dot or value is None else value[inner]


def _key(name: str, value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def _literal(name: str, value: Any) -> str:
    match name:
        case "float" | "double":
            spelled = {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, repr(value))
            return f"CAST('{'NaN' if math.isnan(value) else spelled}' AS {name})"
        case "small" | "large":
            return f"{value:f}BD"
        case "text" | "inner.s" | "part":
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case "bytes":
            return f"X'{value.hex()}'"
        case "flag":
            return "true" if value else "false"
        case "day":
            return f"DATE '{value.isoformat()}'"
        case "at":
            return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}Z'"
        case "byte" | "short" | "int":
            return f"CAST({value} AS {'TINYINT' if name == 'byte' else name})"
    return f"CAST('{value}' AS BIGINT)"


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@st.composite
def _conditions(draw: Any) -> Predicate:
    name = draw(st.sampled_from(COLUMNS))
    source = random.Random(draw(st.integers(0, 1 << 30)))

    def value() -> Any:
        if name in ODD and source.random() < 0.3:
            return source.choice([v for v in ODD[name] if v != "a\x00b"])
        return _around(name, source.randint(-63, 63), source)

    kind = draw(st.integers(0, 9))
    if kind == 0:
        return Predicate(f"{name} IS NULL", lambda row: _get(row, name) is None)
    if kind == 1:
        return Predicate(f"{name} IS NOT NULL", lambda row: _get(row, name) is not None)
    if kind == 2:
        chosen = [value() for _ in range(source.randint(1, 4))]
        keys = [_key(name, v) for v in chosen]
        listed = ", ".join(_literal(name, v) for v in chosen)

        def among(row: Row) -> Truth:
            found = _get(row, name)
            return None if found is None else _key(name, found) in keys

        return Predicate(f"{name} IN ({listed})", among)
    if kind == 3:
        one = value()

        def same(row: Row) -> Truth:
            found = _get(row, name)
            return found is not None and _key(name, found) == _key(name, one)

        return Predicate(f"{name} <=> {_literal(name, one)}", same)
    operator, one = draw(st.sampled_from(list(OPERATORS))), value()

    def compared(row: Row) -> Truth:
        found = _get(row, name)
        return None if found is None else OPERATORS[operator](_key(name, found), _key(name, one))

    return Predicate(f"{name} {operator} {_literal(name, one)}", compared)


def _both(a: Predicate, b: Predicate) -> Predicate:
    def holds(row: Row) -> Truth:
        x, y = a.holds(row), b.holds(row)
        return False if x is False or y is False else (None if x is None or y is None else True)

    return Predicate(f"({a} AND {b})", holds)


def _either(a: Predicate, b: Predicate) -> Predicate:
    def holds(row: Row) -> Truth:
        x, y = a.holds(row), b.holds(row)
        return True if x is True or y is True else (None if x is None or y is None else False)

    return Predicate(f"({a} OR {b})", holds)


def _not(a: Predicate) -> Predicate:
    def holds(row: Row) -> Truth:
        x = a.holds(row)
        return None if x is None else not x

    return Predicate(f"(NOT {a})", holds)


predicates = st.recursive(
    _conditions(),
    lambda inner: (
        st.builds(_both, inner, inner) | st.builds(_either, inner, inner) | st.builds(_not, inner)
    ),
    max_leaves=4,
)


def _canonical(rows: list[Row]) -> list[str]:
    """Rows as texts that sort, in which all NaN are one."""
    return sorted(repr(sorted(row.items())) for row in rows)


@settings(
    max_examples=cases(300, 70),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(predicate=predicates, seed=st.integers(0, 7))
def _check(tables: list[Written], looked_at: list[int], predicate: Predicate, seed: int) -> None:
    table = tables[seed]
    _compare(table, predicate)
    looked_at.append(table.snapshot.files(where=predicate.text).num_rows)


def _compare(table: Written, predicate: Predicate) -> None:
    wanted = [row for row in table.rows if predicate.holds(row) is True]
    scan = table.snapshot.scan(where=predicate.text)
    expected = pa.Table.from_pylist(wanted, schema=SCHEMA).to_pylist()
    assert _canonical(scan.to_arrow().to_pylist()) == _canonical(expected)


def test_a_scan_has_every_row_that_its_predicate_keeps_and_no_other(tables: list[Written]) -> None:
    looked_at: list[int] = []
    _check(tables, looked_at)
    files = [table.snapshot.files().num_rows for table in tables]
    share = sum(looked_at) / len(looked_at) / (sum(files) / len(files))
    assert 0.2 < share < 0.9, "the predicates are such that some files are skipped"


@settings(
    max_examples=cases(300, 70),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(predicate=predicates, seed=st.integers(0, 7))
def _check_indexed(tables: list[Written], predicate: Predicate, seed: int) -> None:
    _compare(tables[seed], predicate)


def test_page_indexes_and_bloom_filters_never_lose_a_row(
    indexed: list[Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are asked about every row group that the footer's statistics keep, however small."""
    for name in ("_WORTH_A_LOOK", "_WORTH_A_REQUEST", "_SHARE", "_WORTH_LEAVING_OUT"):
        monkeypatch.setattr(index_skipping, name, 0)
    monkeypatch.setattr(index_skipping, "_LEAST_SHARE", 1 << 60)
    monkeypatch.setattr(index_skipping, "_NARROWS_LOCAL_FILES", True)
    asked, kept, in_part = [], [], 0
    before = index_skipping.IndexSkipping.parts

    async def recorded(self: Any, piece: Any, parquet: Any, columns: Any, groups: Any) -> Any:
        nonlocal in_part
        found = await before(self, piece, parquet, columns, groups)
        asked.append(len(groups))
        kept.append(len(found))
        in_part += sum(part.pages is not None for parts in found.values() for part in parts)
        return found

    monkeypatch.setattr(index_skipping.IndexSkipping, "parts", recorded)
    _check_indexed(indexed)
    assert in_part > 100
    assert 0.5 < sum(kept) / sum(asked) < 0.98, "the predicates are such that some are skipped"
