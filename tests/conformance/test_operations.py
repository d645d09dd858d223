"""Tables that other engines wrote survive all that adelta does to them, and stay readable by those.

A copy of each loses half of its rows, is updated, merged into, optimised, restored, vacuumed and
cloned: after each it holds what a model of plain rows says. Engines that could read the table at
first read it at last. What a table forbids is refused by name, and nothing changes then.

A run of all tests takes a sample of the pack's tables, or those in whose names there is what
`ADELTA_TEST_TABLES` says.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta.sync as lake
from adelta.errors import AdeltaError, InvalidTableError, StorageError
from tests.conformance.test_pack import PACK, REFUSED, pytestmark, root  # noqa: F401
from tests.interoperability.engines import Engine, EngineError
from tests.interoperability.rows import counted
from tests.support.depth import cases

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator
    from pathlib import Path

ENGINES = ("DuckDB", "deltalake", "polars")
MOST_ROWS = 20_000
ONLY = os.environ.get("ADELTA_TEST_TABLES", "")
EVERY = cases(1, 50)
PLAIN = ("int8", "int16", "int32", "int64", "string", "date32[day]", "bool", "double", "float")

# Polars takes all partition values of a column to be times in one form. Both forms of the protocol
# are there when others have written the table before.
MIXED = "could not parse"

# What stands for a feature in the message that something is refused for its sake.
WORDS = {
    "appendOnly": "append-only",
    "catalogManaged": "managed by a catalog",
    "catalogOwned": "managed by a catalog",
    "catalogOwned-preview": "managed by a catalog",
    "identityColumns": "IDENTITY",
}


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Engine]]:
    folder = tmp_path_factory.mktemp("engines")
    running = [Engine(name, folder) for name in ENGINES]
    yield running
    for engine in running:
        engine.close()


def literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"DATE '{value}'" if isinstance(value, date) else str(value)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass
class Copy:
    """A copy of a table, and the rows that it ought to have."""

    path: Path
    rows: pa.Table
    refused: dict[str, str] = field(default_factory=dict)

    def read(self, version: int | None = None) -> pa.Table:
        with lake.open_table(self.path) as table:
            return table.snapshot(version=version).scan().to_arrow()

    def version(self) -> int:
        with lake.open_table(self.path) as table:
            return table.snapshot().version

    def check(self) -> None:
        found = self.read()
        assert found.schema.names == self.rows.schema.names
        assert content(found, self.rows) == content(self.rows, self.rows)

    def do(self, name: str, work: Callable[[], object], after: pa.Table | None = None) -> bool:
        """Do something to it; whether it was done and not refused."""
        before = self.version()
        try:
            work()
        except (InvalidTableError, StorageError):
            raise
        except AdeltaError as error:
            self.refused[name] = f"{type(error).__name__}: {error}"
            assert self.version() == before
            self.check()
            return False
        if after is not None:
            self.rows = after
        self.check()
        return True


def chosen(rows: pa.Table, partitions: tuple[str, ...]) -> tuple[str, str | None]:
    """A column whose values tell rows apart, and another one to be set."""
    plain = [f.name for f in rows.schema if str(f.type) in PLAIN]
    keys = [n for n in plain if str(rows.schema.field(n).type) not in ("bool", "double", "float")]
    keys.sort(key=lambda name: (-len(set(rows.column(name).to_pylist())), name))
    key = keys[0] if keys else rows.schema.names[0]
    rest = [name for name in plain if name != key]
    return key, next((n for n in rest if n not in partitions), rest[0] if rest else None)


def where(rows: pa.Table, key: str, keep: Callable[[Any], bool]) -> pa.Table:
    return rows.filter(pa.array(map(keep, values_of(rows, key)), pa.bool_()))


def values_of(rows: pa.Table, key: str) -> list[Any]:
    """The values of a column; of a type whose values are not compared, whether there is one."""
    values = rows.column(key)
    if str(values.type) in PLAIN:
        return values.to_pylist()
    return [True if there else None for there in values.is_valid().to_pylist()]


def content(rows: pa.Table, like: pa.Table) -> Counter[str]:
    """How often each row is there; times as numbers, for Python's end with the year 9999."""
    return counted(_numbered(rows), _numbered(like).schema)


def _numbered(rows: pa.Table) -> pa.Table:
    kinds: Any = pa.types
    for at, column in enumerate(rows.schema):
        if kinds.is_timestamp(column.type):
            zone: Any = column.type.tz  # type: ignore[attr-defined]
            values = rows.column(at).cast(pa.timestamp("us", zone)).cast(pa.int64())
            rows = rows.set_column(at, column.name, values)
    return rows


def with_value(rows: pa.Table, name: str, value: Any, hit: list[bool]) -> pa.Table:
    at = rows.schema.get_field_index(name)
    values = [value if h else v for v, h in zip(rows.column(at).to_pylist(), hit, strict=True)]
    return rows.set_column(at, rows.schema.field(at), pa.array(values, rows.schema.field(at).type))


def survive(copy: Copy) -> None:
    """Take a table through everything."""
    path = copy.path
    with lake.open_table(path) as table:
        partitions = tuple(table.snapshot().partition_columns)
    first = copy.rows
    key, other = chosen(first, partitions)
    plain = str(first.schema.field(key).type) in PLAIN
    values = {v for v in first.column(key).to_pylist() if v is not None} if plain else set()
    middle = sorted(values)[len(values) // 2] if values else None
    upper = (
        f"{quoted(key)} >= {literal(middle)}" if middle is not None else f"{quoted(key)} IS NULL"
    )

    def is_upper(value: Any) -> bool:
        return value is None if middle is None else value is not None and value >= middle

    gone = where(first, key, is_upper)
    rest = where(first, key, lambda value: not is_upper(value))
    done = copy.do("delete", lambda: lake.delete(path, upper), rest)
    deleted = copy.version()
    if other is not None:
        value = next((v for v in first.column(other).to_pylist() if v is not None), None)
        text = "NULL" if value is None else literal(value)
        hit = [value is not None for value in values_of(copy.rows, key)]
        after = with_value(copy.rows, other, value, hit)
        condition = f"{quoted(key)} IS NOT NULL"
        copy.do("update", lambda: lake.update(path, {other: text}, condition), after)
    if done and gone.num_rows:
        on = f"target.{quoted(key)} = source.{quoted(key)}" if middle is not None else "false"
        merge = lake.merge(path, gone, on).when_not_matched_insert_all()
        copy.do("merge", merge.execute, pa.concat_tables([copy.rows, gone]))
    if middle is not None:
        some = pa.table({key: pa.array([middle], first.schema.field(key).type)})
        matched = lake.merge(path, some, f"target.{quoted(key)} = source.{quoted(key)}")
        rest = where(copy.rows, key, lambda value: value != middle)
        copy.do("merge delete", matched.when_matched_delete().execute, rest)
    copy.do("optimize", lambda: lake.optimize(path))
    copy.do("purge", lambda: lake.reorg_purge(path))
    latest = copy.version()
    if deleted < latest:
        then, now = copy.read(deleted), copy.rows
        if copy.do("restore", lambda: lake.restore(path, version=deleted), then):
            copy.do("restore", lambda: lake.restore(path, version=latest), now)
    copy.do("checkpoint", lambda: lake.checkpoint(path))
    now_ = timedelta(0)
    copy.do("vacuum", lambda: lake.vacuum(path, retention=now_, enforce_retention=False))
    for shallow in (False, True):
        target = path.parent / f"clone{shallow}"
        try:
            lake.clone(path, target, shallow=shallow)
        except (InvalidTableError, StorageError):
            raise
        except AdeltaError as error:
            copy.refused["clone"] = f"{type(error).__name__}: {error}"
            continue
        with lake.open_table(target, allowed_roots=[path.absolute()]) as cloned:
            found = cloned.snapshot().scan().to_arrow()
        assert content(found, copy.rows) == content(copy.rows, copy.rows)


def readers(engines: list[Engine], path: Path, rows: pa.Table) -> dict[str, str | None]:
    """What each engine says of a table; None where it reads what it should."""
    found: dict[str, str | None] = {}
    for engine in engines:
        try:
            theirs = content(engine.read(path), rows)
            found[engine.name] = None if theirs == content(rows, rows) else "other rows"
        except (EngineError, AssertionError, pa.ArrowException) as error:
            found[engine.name] = str(error) or "other columns"
    return found


@contextmanager
def of_case(case: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{case}: {error!r}") from error


@pytest.mark.timeout(0)
def test_tables_of_others_survive_all_operations(
    root: Path,  # noqa: F811
    engines: list[Engine],
    tmp_path: Path,
) -> None:
    every = json.loads((root / "oracle.json").read_text())["cases"]
    read = [case for case in every if case["expect"]["check"] == "read"]
    small = [case for case in read if case["expect"]["rows"] <= MOST_ROWS]
    taken = [c for c in small if ONLY in c["id"]] if ONLY else small[::EVERY]
    wrong = []
    for number, case in enumerate(taken):
        if case["id"] in REFUSED:
            continue
        folder = tmp_path / str(number)
        shutil.copytree(root / "cases" / case["id"] / "delta", folder / "t")
        try:
            with of_case(case["id"]):
                copy = Copy(folder / "t", pa.table({}))
                copy.rows = copy.read()
                before = readers(engines, copy.path, copy.rows)
                survive(copy)
                after = readers(engines, copy.path, copy.rows)
                lost = {n: said for n, said in after.items() if said and before[n] is None}
                if MIXED in lost.get("polars", ""):
                    del lost["polars"]
                assert not lost, lost
                features = ["appendOnly", *(case["log"]["protocol"].get("writerFeatures") or [])]
                words = [word for each in features for word in (each, WORDS.get(each, each))]
                words += ["writer version 8", "the table property delta."]
                unnamed = [t for t in copy.refused.values() if not any(w in t for w in words)]
                assert not unnamed, unnamed
        except AssertionError as error:
            wrong.append(str(error))
        shutil.rmtree(folder)
    assert not wrong, "\n".join(wrong)
