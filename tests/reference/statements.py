"""Runs the statements of `statements.jsonl.gz` on adelta's tables, and compares the results."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import adelta.sync as adelta
from adelta.errors import AdeltaError
from adelta.kernel.schema.json import schema_from_string

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["CASES", "Case", "check"]

Case = dict[str, Any]

PLANNED_METRICS = {"numSourceRows", "numOutputRows", "numTargetRowsCopied"}
"""Metrics of MERGE that follow the plan: Delta Spark may read the source twice."""
STRICTER_ERRORS = {"DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"}
"""Errors of Delta Spark for statements that adelta runs."""
_TYPES = {
    "int": pa.int32(),
    "string": pa.string(),
    "double": pa.float64(),
    "date": pa.date32(),
    "decimal(12,2)": pa.decimal128(12, 2),
    "timestamp": pa.timestamp("us", "UTC"),
}
_PARSE: dict[str, Callable[[Any], Any]] = {
    "double": float,
    "date": dt.date.fromisoformat,
    "decimal(12,2)": Decimal,
    "timestamp": lambda text: dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC),
}


def _load() -> dict[int, Case]:
    with gzip.open(Path(__file__).with_name("statements.jsonl.gz"), "rt") as lines:
        return {case["seed"]: case for case in map(json.loads, lines)}


CASES = _load()


def check(
    case: Case,
    path: str,
    run: Callable[[str, dict[str, str]], None],
    failures: type[Exception] = AdeltaError,
) -> None:
    """Assert that a statement has the same results as in Delta Spark.

    `run` is called with the statement, which names `{target}` and `{source}`, and the locations of
    these tables. `failures` is the class of errors that it may raise.
    """
    _create(case, path)
    before = adelta.open_table(path).snapshot().version
    tables = {"target": path}
    if case["kind"] == "merge":
        tables["source"] = f"{path}-source"
        adelta.write_table(tables["source"], _table(case["source_columns"], case["source"]))
    expected = case["expected"]
    failure = None
    try:
        run(case["statement"], tables)
    except failures as error:
        failure = error
    if failure is not None:
        assert "error" in expected, f"Delta Spark runs it: {failure}"
        assert adelta.open_table(path).snapshot().version == before
        return
    if "error" in expected:
        assert expected["error"] in STRICTER_ERRORS, f"Delta Spark fails: {expected['error']}"
        return
    snapshot = adelta.open_table(path).snapshot()
    assert (snapshot.version > before) == expected["committed"]
    assert _types(snapshot.delta_schema) == _types(_schema(expected["schema"]))
    assert _rows(snapshot.scan().to_arrow()) == expected["rows"]
    assert (_changes(path, before) if expected["committed"] else []) == expected["changes"]
    if expected["committed"]:
        (entry,) = adelta.history(path, limit=1)
        metrics = dict(entry.operation_metrics or {})
        compared = {k: v for k, v in expected["metrics"].items() if k not in PLANNED_METRICS}
        assert {name: metrics.get(name) for name in compared} == compared


def _create(case: Case, path: str) -> None:
    adelta.create_table(
        path,
        _table(case["columns"], []).schema,
        partition_by=case["partition_by"],
        properties=case["properties"],
    )
    for rows in filter(None, case["files"]):
        adelta.write_table(path, _table(case["columns"], rows))


def _table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]) -> pa.Table:
    arrays = {}
    for place, (name, kind) in enumerate(columns):
        parse = _PARSE.get(kind, lambda value: value)
        values = [None if row[place] is None else parse(row[place]) for row in rows]
        arrays[name] = pa.array(values, _TYPES[kind])
    return pa.table(arrays)


def _schema(found: dict[str, Any]) -> Any:
    return schema_from_string(json.dumps(found))


def _types(schema: Iterable[Any]) -> list[tuple[str, str]]:
    return [(field.name, str(field.type)) for field in schema]


def _changes(path: str, before: int) -> list[list[Any]]:
    batches = [pa.record_batch(batch) for batch in adelta.changes(path, since=before + 1)]
    if not batches:
        return []
    return _rows(pa.Table.from_batches(batches).drop_columns(["_commit_timestamp"]))


def _rows(table: pa.Table) -> list[list[Any]]:
    columns = [column.to_pylist() for column in table.columns]
    rows = [list(map(_text, row)) for row in zip(*columns, strict=True)]
    return sorted(rows, key=json.dumps)


def _text(value: Any) -> Any:
    """A value as `statements.jsonl.gz` has it: floats by `repr`, timestamps as Spark casts them."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dt.datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return str(value)
