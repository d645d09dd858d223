"""Tables of every kind that adelta writes, for other engines to read."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import adelta
import adelta.sync
from adelta.kernel.schema import types as t
from tests.support.shapes import marked, point

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["KINDS", "age", "change_feed"]

KINDS: Final[dict[str, Callable[[Path], None]]] = {}
"""What makes a table of each kind below a folder that does not exist yet."""

VECTORS: Final = {"delta.enableDeletionVectors": "true"}
FEED: Final = {"delta.enableChangeDataFeed": "true"}
ODD: Final = [
    "a%b",
    "x/y",
    " ",
    "größe ✓",
    "a=b",
    "a+b&c",
    "a:b?c#d",
    "'quoted\"",
    "..",
    "%41",
    "𝄞",
]
PRIMITIVES: Final = pa.schema(
    [
        ("boolean", pa.bool_()),
        ("byte", pa.int8()),
        ("short", pa.int16()),
        ("integer", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("decimal", pa.decimal128(20, 3)),
        ("string", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
NESTED: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("list", pa.list_(pa.int64())),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("struct", pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))])),
        ("deep", pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.string())))]))),
    ]
)
NUMBERS: Final = pa.schema([("id", pa.int64()), ("s", pa.string()), ("p", pa.string())])
EARLY: Final = {
    "boolean": True,
    "byte": -128,
    "short": 32767,
    "integer": -(2**31),
    "long": 2**63 - 1,
    "float": 1.5,
    "double": -2.25,
    "decimal": Decimal("12345678901234567.891"),
    "string": "größe ✓ 𝄞",
    "binary": b"\x00\xff",
    "date": date(1970, 1, 1),
    "timestamp": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
}
LATE: Final = {
    **EARLY,
    "boolean": False,
    "decimal": Decimal("-0.001"),
    "string": "",
    "double": 1e300,
    "date": date(2024, 2, 29),
    "timestamp": datetime(2024, 2, 29, 12, 0, tzinfo=UTC),
}


def kind(name: str) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    """Register what makes a table of this kind."""

    def register(make: Callable[[Path], None]) -> Callable[[Path], None]:
        KINDS[name] = make
        return make

    return register


def numbers(start: int, stop: int) -> pa.Table:
    """Rows with a number, a text and a partition."""
    ids = range(start, stop)
    texts = [None if n % 7 == 6 else f"text {n}" for n in ids]
    columns = {"id": list(ids), "s": texts, "p": [("a", "b", None)[n % 3] for n in ids]}
    return pa.table(columns, schema=NUMBERS)


def grown(root: Path, properties: Mapping[str, str], **options: Any) -> adelta.sync.Table:
    """A table of nine commits: appends, two deletions, an update and an application's version."""
    table = adelta.sync.create_table(
        str(root), NUMBERS, partition_by=["p"], properties=properties, **options
    )
    for start in range(0, 50, 10):
        adelta.sync.write_table(table, numbers(start, start + 10), txn=("app", start))
    adelta.sync.delete(table, "id % 10 = 3")
    adelta.sync.update(table, {"s": "'changed'"}, "id between 20 and 24")
    adelta.sync.delete(table, "p = 'b' and id > 40")
    return table


def age(root: Path, days: int) -> None:
    """Make every file of the log so many days older."""
    for path in (root / "_delta_log").rglob("*"):
        if path.is_file():
            then = path.stat().st_mtime - days * 86_400
            os.utime(path, (then, then))


def without_commits(root: Path, until: int) -> None:
    """Take the commits up to a version away, so that the checkpoint must be read."""
    for version in range(until + 1):
        (root / "_delta_log" / f"{version:020}.json").unlink()
        (root / "_delta_log" / f"{version:020}.crc").unlink()


# ---------------------------------------------------------------------------------------- values


@kind("primitive types")
def _primitives(root: Path) -> None:
    nothing = dict.fromkeys(EARLY)
    rows = pa.Table.from_pylist([EARLY, LATE, nothing], schema=PRIMITIVES)
    adelta.sync.write_table(str(root), rows)


@kind("nested types")
def _nested(root: Path) -> None:
    row = {
        "id": 1,
        "list": [1, None, 3],
        "map": [("k", 1), ("l", None)],
        "struct": {"x": 1, "y": {"z": "deep"}},
        "deep": [{"m": [("k", ["a", None])]}, {"m": []}],
    }
    empty = {"id": 2, "list": [], "map": [], "struct": {"x": None, "y": {"z": None}}, "deep": []}
    adelta.sync.write_table(str(root), pa.Table.from_pylist([row, empty], schema=NESTED))


@kind("nested types that are null")
def _null_nested(root: Path) -> None:
    rows = [{"id": 1, "struct": {"x": 1, "y": None}, "deep": [None]}, {"id": 2}]
    adelta.sync.write_table(str(root), pa.Table.from_pylist(rows, schema=NESTED))


@kind("old dates and times")
def _old(root: Path) -> None:
    days = [date(1, 1, 1), date(1582, 10, 4), date(9999, 12, 31)]
    times = [datetime(d.year, d.month, d.day, 1, 2, 3, 456_789, tzinfo=UTC) for d in days]
    columns = {"d": pa.array(days), "t": pa.array(times, pa.timestamp("us", "UTC"))}
    adelta.sync.write_table(str(root), pa.table(columns))


@kind("timestamps without a zone")
def _ntz(root: Path) -> None:
    times = [datetime(2024, 2, 29, 1, 2, 3, 4), None]
    rows = pa.table({"id": [1, 2], "t": pa.array(times, pa.timestamp("us"))})
    adelta.sync.write_table(str(root), rows)


@kind("variants")
def _variants(root: Path) -> None:
    schema = t.StructType((t.StructField("id", t.LONG), t.StructField("v", t.VARIANT)))
    table = adelta.sync.create_table(str(root), schema)
    texts = pa.array(['{"a": [1, "x", null]}', "1.5", None], pa.json_(pa.string()))
    adelta.sync.write_table(table, pa.table({"id": [1, 2, 3], "v": texts}))


@kind("shapes")
def _shapes(root: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), marked("g", crs="OGC:CRS84")])
    columns = [pa.array([1, 2]), pa.array([point(1, 2), None])]
    adelta.sync.write_table(str(root), pa.table(columns, schema=schema))


# ------------------------------------------------------------------------------- partition values


def partitioned(root: Path, values: pa.Array[Any]) -> None:
    rows = pa.table({"v": range(len(values)), "p": values})
    adelta.sync.write_table(str(root), rows, partition_by=["p"])


for _field in PRIMITIVES:
    _values: Any = pa.array([EARLY[_field.name], LATE[_field.name], None], _field.type)
    if _field.name == "string":
        _values = pa.array(["plain", "1", None])
    elif _field.name == "binary":
        _values = pa.array([b"plain", b"x", None], pa.binary())
    kind(f"partitions of type {_field.name}")(
        lambda root, values=_values: partitioned(root, values)
    )


@kind("partitions with odd characters")
def _odd_partitions(root: Path) -> None:
    partitioned(root, pa.array(ODD))


@kind("partitions of timestamps without a zone")
def _ntz_partitions(root: Path) -> None:
    times = [datetime(2024, 2, 29, 1, 2, 3, 4), datetime(1969, 1, 1), None]
    partitioned(root, pa.array(times, pa.timestamp("us")))


@kind("partitions of several columns")
def _several_partitions(root: Path) -> None:
    columns = {"p_q": ["a b", None, "c/d"], "d": [date(2024, 1, 2), date(2024, 1, 3), None]}
    rows = pa.table({"id": [1, 2, 3], **columns})
    adelta.sync.write_table(str(root), rows, partition_by=["p_q", "d"])


@kind("columns with odd names, by name mapping")
def _odd_names(root: Path) -> None:
    rows = pa.table({"a b;c": [1], "größe=✓": ["x"], "d,e": [{"f.g": 1}]})
    mapped = {"delta.columnMapping.mode": "name"}
    adelta.sync.create_table(str(root), rows.schema, properties=mapped)
    adelta.sync.write_table(str(root), rows)


# ------------------------------------------------------------------------------------------- logs


@kind("version checksums and commits alone")
def _commits(root: Path) -> None:
    grown(root, {"delta.checkpointInterval": "100"})


@kind("log compactions")
def _compactions(root: Path) -> None:
    table = grown(root, {"delta.checkpointInterval": "100"})
    for first, last in ((1, 3), (4, 7), (1, 8), (2, 5)):
        adelta.sync.compact_log(table, start_version=first, end_version=last)


@kind("log compactions of commits without transactions")
def _bare_compactions(root: Path) -> None:
    for n in range(4):
        adelta.sync.write_table(str(root), pa.table({"id": [n]}))
    adelta.sync.delete(str(root), "id = 1")
    adelta.sync.delete(str(root), "id = 2")
    with adelta.sync.open_table(str(root)) as table:
        for first, last in ((1, 3), (2, 5), (4, 5), (1, 5)):
            adelta.sync.compact_log(table, start_version=first, end_version=last)


@kind("log compactions after a checkpoint")
def _compactions_after_checkpoint(root: Path) -> None:
    table = grown(root, {"delta.checkpointInterval": "100"})
    adelta.sync.checkpoint(table)
    without_commits(root, 7)
    for start in range(100, 140, 10):
        adelta.sync.write_table(table, numbers(start, start + 10))
    adelta.sync.compact_log(table, start_version=9, end_version=12)


CHECKPOINTS: Final = {
    "classic": {},
    "classic, statistics as struct": {
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpoint.writeStatsAsJson": "false",
    },
    "classic, statistics twice": {"delta.checkpoint.writeStatsAsStruct": "true"},
    "classic, no statistics": {"delta.checkpoint.writeStatsAsJson": "false"},
    "in parts": {"adelta.checkpoint.partSize": "4"},
    "V2 in JSON": {"delta.checkpointPolicy": "v2", "adelta.checkpoint.partSize": "4"},
    "V2 in Parquet": {
        "delta.checkpointPolicy": "v2",
        "adelta.checkpoint.partSize": "4",
        "adelta.checkpoint.v2Format": "parquet",
    },
    "V2 with statistics as struct": {
        "delta.checkpointPolicy": "v2",
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpoint.writeStatsAsJson": "false",
    },
}


def checkpointed(root: Path, properties: Mapping[str, str]) -> None:
    """A table of which a checkpoint must be read, and some commits after it."""
    table = grown(root, {"delta.checkpointInterval": "100", **properties})
    adelta.sync.checkpoint(table)
    without_commits(root, 7)
    adelta.sync.write_table(table, numbers(100, 110))
    adelta.sync.delete(table, "id = 105 or id = 11")


for _name, _properties in CHECKPOINTS.items():
    kind(f"checkpoint: {_name}")(lambda root, asked=_properties: checkpointed(root, asked))


@kind("a log that was cleaned up")
def _cleaned_up(root: Path) -> None:
    table = grown(root, {"delta.checkpointInterval": "100"})
    adelta.sync.checkpoint(table)
    age(root, 40)
    adelta.sync.write_table(table, numbers(100, 110))
    adelta.sync.checkpoint(table)
    age(root, 40)
    adelta.sync.write_table(table, numbers(110, 120))
    done = adelta.sync.cleanup_log(table, retention=timedelta(days=1))
    assert done.num_commits or not (root / "_delta_log" / f"{0:020}.json").exists()


@kind("schema that grew")
def _grown_schema(root: Path) -> None:
    adelta.sync.write_table(str(root), pa.table({"id": [1, 2]}))
    rows = pa.table({"new": ["x"], "id": [3], "s": [{"a": 1}]})
    adelta.sync.write_table(str(root), rows, schema_mode="merge")
    more = pa.table({"id": [4], "new": ["y"], "s": [{"a": 2, "b": "z"}]})
    adelta.sync.write_table(str(root), more, schema_mode="merge")


@kind("no rows")
def _empty(root: Path) -> None:
    adelta.sync.create_table(str(root), NUMBERS, partition_by=["p"])


@kind("overwritten")
def _overwritten(root: Path) -> None:
    table = grown(root, {})
    adelta.sync.write_table(table, numbers(500, 520), mode="overwrite", replace_where="id > 20")
    dynamic = numbers(900, 901)
    adelta.sync.write_table(table, dynamic, mode="overwrite", partition_overwrite="dynamic")


# --------------------------------------------------------------------------------------- features


@kind("deletion vectors in the log")
def _inline_vectors(root: Path) -> None:
    grown(root, VECTORS)


@kind("deletion vectors in a file")
def _vectors(root: Path) -> None:
    """One file has the vectors of several data files; one data file has had two."""
    table = adelta.sync.create_table(str(root), NUMBERS, partition_by=["p"], properties=VECTORS)
    for start in (0, 6_000):
        adelta.sync.write_table(table, numbers(start, start + 6_000))
    adelta.sync.delete(table, "id * 7919 % 31 < 9")
    adelta.sync.delete(table, "id % 100 = 0 and p = 'a'")
    adelta.sync.checkpoint(table)
    assert list(root.glob("deletion_vector_*.bin"))


@kind("deletion vectors of files with odd paths")
def _odd_vectors(root: Path) -> None:
    schema = pa.schema([("v", pa.int64()), ("p", pa.string())])
    table = adelta.sync.create_table(str(root), schema, partition_by=["p"], properties=VECTORS)
    rows = {"v": range(3 * len(ODD)), "p": [text for text in ODD for _ in range(3)]}
    adelta.sync.write_table(table, pa.table(rows))
    adelta.sync.delete(table, "v % 3 = 1")


@kind("deletion vectors with column mapping")
def _mapped_vectors(root: Path) -> None:
    table = grown(root, {**VECTORS, "delta.columnMapping.mode": "name"})
    adelta.sync.rename_column(table, "p", "part")
    adelta.sync.delete(table, "id = 25 or part is null")


def mapped(root: Path, mode: str) -> None:
    inner = pa.struct([("x", pa.int64()), ("y y", pa.list_(pa.struct([("z", pa.string())])))])
    schema = pa.schema([("id", pa.int64()), ("p", pa.string()), ("n", inner), ("old", pa.int8())])
    table = adelta.sync.create_table(
        str(root), schema, partition_by=["p"], properties={"delta.columnMapping.mode": mode}
    )
    rows = [{"id": 1, "p": "a", "n": {"x": 1, "y y": [{"z": "q"}]}, "old": 1}, {"id": 2, "p": "b"}]
    adelta.sync.write_table(table, pa.Table.from_pylist(rows, schema=schema))
    adelta.sync.rename_column(table, "n.x", "renamed x")
    adelta.sync.rename_column(table, "p", "part")
    adelta.sync.drop_columns(table, ["old"])
    more = pa.Table.from_pylist([{"id": 3, "part": "a", "n": {"renamed x": 5, "y y": []}}])
    adelta.sync.write_table(table, more.select(["id", "part"]))
    adelta.sync.add_columns(table, pa.schema([("old", pa.string())]))
    adelta.sync.write_table(table, pa.table({"id": [4], "old": ["another"]}))
    adelta.sync.checkpoint(table)


@kind("column mapping by name")
def _by_name(root: Path) -> None:
    mapped(root, "name")


@kind("column mapping by id")
def _by_id(root: Path) -> None:
    mapped(root, "id")


@kind("change data feed")
def _feed(root: Path) -> None:
    grown(root, FEED)


@kind("change data feed with deletion vectors")
def _feed_and_vectors(root: Path) -> None:
    grown(root, {**FEED, **VECTORS})


@kind("type widening")
def _widened(root: Path) -> None:
    fields = [("id", pa.int8()), ("f", pa.float32()), ("d", pa.decimal128(5, 2)), ("p", pa.int16())]
    table = adelta.sync.create_table(
        str(root),
        pa.schema(fields),
        partition_by=["p"],
        properties={"delta.enableTypeWidening": "true"},
    )
    row = {"id": 1, "f": 1.5, "d": Decimal("1.25"), "p": 7}
    adelta.sync.write_table(table, pa.Table.from_pylist([row], schema=pa.schema(fields)))
    wider = {"id": t.LONG, "f": t.DOUBLE, "d": t.DecimalType(12, 4), "p": t.INTEGER}
    for name, data_type in wider.items():
        adelta.sync.change_column(table, name, type=data_type)
    row = {"id": 2**40, "f": 1e300, "d": Decimal("12345678.1234"), "p": 2**20}
    columns = [("id", pa.int64()), ("f", pa.float64()), ("d", pa.decimal128(12, 4))]
    schema = pa.schema([*columns, ("p", pa.int32())])
    adelta.sync.write_table(table, pa.Table.from_pylist([row], schema=schema))


@kind("in-commit timestamps")
def _in_commit_timestamps(root: Path) -> None:
    grown(root, {"delta.enableInCommitTimestamps": "true"})


@kind("row tracking")
def _row_tracking(root: Path) -> None:
    grown(root, {"delta.enableRowTracking": "true"})


@kind("row tracking with deletion vectors")
def _row_tracking_and_vectors(root: Path) -> None:
    grown(root, {"delta.enableRowTracking": "true", **VECTORS})


@kind("identity and generated columns")
def _identity(root: Path) -> None:
    generated = {"delta.generationExpression": "a * 2"}
    numbered = {
        "delta.identity.start": 1,
        "delta.identity.step": 1,
        "delta.identity.allowExplicitInsert": False,
    }
    fields = (
        t.StructField("a", t.LONG),
        t.StructField("b", t.LONG, metadata=generated),
        t.StructField("n", t.LONG, metadata=numbered),
    )
    table = adelta.sync.create_table(str(root), t.StructType(fields))
    adelta.sync.write_table(table, pa.table({"a": [1, 2, 3]}))
    adelta.sync.write_table(table, pa.table({"a": [4]}))


@kind("clustering")
def _clustered(root: Path) -> None:
    table = adelta.sync.create_table(str(root), NUMBERS, cluster_by=["id", "s"])
    adelta.sync.write_table(table, numbers(0, 30))
    adelta.sync.delete(table, "id < 5")


@kind("constraints and defaults")
def _constraints(root: Path) -> None:
    features = {"delta.feature.allowColumnDefaults": "supported"}
    fields = (
        t.StructField("id", t.LONG, nullable=False),
        t.StructField("s", t.STRING, metadata={"CURRENT_DEFAULT": "'given'"}),
    )
    table = adelta.sync.create_table(str(root), t.StructType(fields), properties=features)
    adelta.sync.add_constraint(table, "positive", "id > 0")
    adelta.sync.write_table(table, pa.table({"id": [1, 2]}))
    adelta.sync.write_table(table, pa.table({"id": [3], "s": ["own"]}))


@kind("append-only")
def _append_only(root: Path) -> None:
    table = adelta.sync.create_table(str(root), NUMBERS, properties={"delta.appendOnly": "true"})
    adelta.sync.write_table(table, numbers(0, 10))


@kind("a version of an early protocol")
def _early(root: Path) -> None:
    table = grown(root, {})
    snapshot = table.snapshot()
    assert (snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version) == (1, 2)


for _version in (1, 2, 3):
    kind(f"IcebergCompatV{_version}")(
        lambda root, version=_version: (
            grown(
                root,
                {
                    f"delta.enableIcebergCompatV{version}": "true",
                    "delta.columnMapping.mode": "name",
                },
            )
            and None
        )
    )


def change_feed(root: Path) -> list[tuple[str, int, int]]:
    """The change, the version and the id of each row that the table's commits have changed."""
    with adelta.sync.open_table(str(root)) as table:
        feed = pa.Table.from_batches(list(adelta.sync.changes(table, 0)))
    rows = feed.select(["_change_type", "_commit_version", "id"]).to_pylist()
    return sorted(tuple(row.values()) for row in rows)
