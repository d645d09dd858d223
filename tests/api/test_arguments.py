"""Arguments of every public function: what is wrong is said before anything is written."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import re
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
import adelta.sync
from adelta.errors import AdeltaError, InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

WRONG: dict[str, list[object]] = {
    "str": [7, None, b"x", ["x"], "\ud800"],
    "str | None": [7, b"x", ["x"], {"a": 1}],
    "bool": [None, "yes", 1],
    "bool | None": ["yes", 1],
    "int": [None, "1", 1.5, True, 2**63],
    "int | None": ["1", 1.5, True, -1, 2**70],
    "float": ["soon", -1],
    "Iterable[int]": ["x", 7, None, ["a"], {1: 2}],
    "Iterable[str]": ["x", 7, None, [1], {"a": 1}, b"x"],
    "Iterable[str] | None": ["x", 7, [1], {"a": 1}],
    "ArrowSchema | StructType | str": [None, 7, "id", "id: no_type", {"id": "bigint"}, [1]],
    "Mapping[str, str]": [None, "x", 7, ["x"], {1: "x"}, {"a": None}, {"a": [1]}],
    "Mapping[str, str] | None": ["x", 7, ["x"], {1: "x"}],
    "tuple[str, int] | None": ["x", 7, ("a",), ("a", "1"), (1, 1), ("a", 2**63)],
    "timedelta | None": [7, "a week"],
    "IsolationName | None": [7, "Chaos", ["Serializable"]],
    "WriteMode": [7, "upsert", ["append"]],
    "SchemaMode | None": [7, "guess", ["merge"]],
    "Literal['merge'] | None": [7, "overwrite", ["merge"]],
    "DataFileOptions | None": [7, {"target_file_size": 1}],
    "PartitionOverwrite": [7, "both", ["static"]],
    "CommitOptions | None": [7, {"user_metadata": "um"}],
    "WriterOptions | None": [7, {"compression": "zstd"}],
    "CatalogClient | None": [7, "catalog", object()],
    "FolderNames": [7, "year", None],
    "SourceFormat": [7, "csv", None],
    "VacuumMode": [7, "half", None],
    "NamedTables | None": [7, "t", ["t"], {1: "t"}, {"t": 1}],
}
"""By annotation, what is no such thing."""

ENOUGH: dict[str, dict[str, Any]] = {
    "add_columns": {"columns": pa.schema([("z", pa.int64())])},
    "add_constraint": {"name": "c", "expression": "id > 0"},
    "add_feature": {"name": "domainMetadata"},
    "adopt_table": {"owner": "adelta"},
    "change_column": {"column": "id", "comment": "a number"},
    "cluster_by": {"columns": ["id"]},
    "clone": {"target": "memory://no-clone/t"},
    "create_table": {"schema": pa.schema([("z", pa.int64())]), "mode": "ignore"},
    "drop_columns": {"columns": ["p"]},
    "drop_constraint": {"name": "c"},
    "drop_feature": {"name": "appendOnly"},
    "merge": {"source": pa.table({"id": [1]}), "on": "target.id = source.id"},
    "rename_column": {"column": "p", "new_name": "q"},
    "replace_matching": {"source": pa.table({"id": [1]}), "using": ["id"]},
    "replace_table": {"schema": pa.schema([("z", pa.int64())])},
    "restore": {"version": 0},
    "set_properties": {"properties": {"mine": "1"}},
    "sql": {"text": "SELECT 1"},
    "unset_properties": {"names": ["mine"]},
    "update": {"set": {"id": "1"}},
    "upgrade_protocol": {"reader_version": 1, "writer_version": 3},
    "write_table": {"data": pa.table({"id": [3], "p": ["c"]})},
}
"""Arguments with which a call would be right, but for the one that is wrong."""

VERBS = [
    name
    for name in adelta.__all__
    if inspect.iscoroutinefunction(getattr(adelta, name)) and name != "retry"
]
CASES = [
    (verb, parameter.name, value)
    for verb in VERBS
    for parameter in inspect.signature(getattr(adelta, verb)).parameters.values()
    for value in WRONG.get(str(parameter.annotation), ())
]


def test_the_annotations_of_all_verbs_are_known_here() -> None:
    """A parameter of a kind that nobody checks would go unnoticed."""
    elsewhere = {
        "TableOrAddress", "Table", "str | os.PathLike[str]", "Data",
        "Where | None", "Data | None",
        "ArrowSchema | StructType | str | None", "Mapping[str, SetValue]",
        "OnProgress | None", "datetime | str | None", "str | Iterable[str] | None",
        "DataType | pa.DataType | str | None", "Literal['error', 'ignore']", "MergeSource",
        "Mapping[str, MergeValue] | None",
    }  # fmt: skip
    found = {
        str(parameter.annotation).replace('"', "'")
        for verb in VERBS
        for parameter in inspect.signature(getattr(adelta, verb)).parameters.values()
    }
    assert len(VERBS) > 20
    assert found - set(WRONG) <= elsewhere


@pytest.mark.parametrize(("verb", "name", "value"), CASES)
async def test_a_wrong_argument_is_refused_and_nothing_is_written(
    verb: str, name: str, value: object
) -> None:
    uri = f"memory://arguments-{uuid.uuid4().hex}/t"
    async with adelta.open_table(uri) as table:
        await adelta.write_table(table, pa.table({"id": [1], "p": ["a"]}))
        arguments = {**ENOUGH.get(verb, {}), name: value}
        about = () if verb == "sql" else (uri,)
        with pytest.raises(AdeltaError) as caught:
            await getattr(adelta, verb)(*about, **arguments)
        if isinstance(caught.value, InvalidOptionError):
            assert re.search(r"pass|choose|must|give|\bno\b", str(caught.value))
        assert (await table.snapshot()).version == 0


async def test_a_path_is_taken_for_an_address(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    await adelta.write_table(lake, pa.table({"id": [1]}))
    async with adelta.open_table(lake) as table:
        assert await (await table.snapshot()).scan().count() == 1
    assert (await adelta.delete(lake, "id = 1")).num_deleted_rows == 1
    async with await adelta.create_table(tmp_path / "other", pa.schema([("a", pa.int64())])):
        pass
    for nowhere in ("", 7, None):
        with pytest.raises(InvalidOptionError, match="no address of a table"):
            adelta.open_table(nowhere)  # type: ignore[arg-type]


async def test_one_text_is_no_list_and_one_iterator_is() -> None:
    uri = f"memory://arguments-{uuid.uuid4().hex}/t"
    with pytest.raises(InvalidOptionError, match=r"pass a list, such as \['p'\]"):
        await adelta.write_table(uri, pa.table({"p": ["a"], "q": [1]}), partition_by="p")
    await adelta.write_table(uri, pa.table({"p": ["a"], "q": [1]}), partition_by=iter(["p"]))
    async with adelta.open_table(uri) as table:
        assert (await table.snapshot()).partition_columns == ("p",)


async def test_truth_values_and_numbers_are_taken_for_their_texts() -> None:
    uri = f"memory://arguments-{uuid.uuid4().hex}/t"
    properties: Any = {"delta.appendOnly": True, "delta.checkpointInterval": 7}
    async with await adelta.create_table(uri, "id bigint", properties=properties) as table:
        found = (await table.snapshot()).properties
        assert found["delta.appendOnly"] == "true"
        assert found["delta.checkpointInterval"] == "7"


EARLY = dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=14)))
HUGE = 10**400
VALUES: list[Callable[[], object]] = [
    lambda: adelta.Position.parse(5),  # type: ignore[arg-type]
    lambda: adelta.Position.parse("9" * 5000 + ":0"),
    lambda: adelta.Position("1"),  # type: ignore[arg-type]
    lambda: adelta.Position(True),
    lambda: adelta.Position(1.5),  # type: ignore[arg-type]
    lambda: adelta.WriterOptions(row_group_rows="x"),  # type: ignore[arg-type]
    lambda: adelta.WriterOptions(row_group_bytes=2**70),
    lambda: adelta.WriterOptions(compression=5),  # type: ignore[arg-type]
    lambda: adelta.WriterOptions(bloom_filters=5),  # type: ignore[arg-type]
    lambda: adelta.WriterOptions(version="3"),  # type: ignore[arg-type]
    lambda: adelta.DataFileOptions(memory_budget=2**70),
    lambda: adelta.sync.retry(None),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("make", VALUES)
def test_values_that_callers_make_are_checked_as_they_are_made(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidOptionError):
        make()


async def rows_of(changes: AsyncIterator[object]) -> list[object]:
    return [each async for each in changes]


CALLS: list[Callable[[adelta.Table], Awaitable[object]]] = [
    lambda _: adelta.retry(None),  # type: ignore[arg-type]
    lambda _: adelta.retry(lambda: 5),  # type: ignore[arg-type, return-value]
    lambda _: adelta.retry(lambda: asyncio.sleep(0), timeout=HUGE),
    lambda table: table.snapshot(timestamp=EARLY),
    lambda table: rows_of(adelta.changes(table, since=dt.datetime.min)),
    lambda table: rows_of(adelta.changes(table, columns=["_change_type"])),
    lambda table: rows_of(adelta.tail(table, poll=HUGE)),
    lambda table: adelta.cleanup_log(table, retention=dt.timedelta.max, dry_run=True),
]


@pytest.mark.parametrize("call", CALLS)
async def test_what_no_time_and_no_column_can_be_is_refused_by_name(
    call: Callable[[adelta.Table], Awaitable[object]],
) -> None:
    uri = f"memory://arguments-{uuid.uuid4().hex}/t"
    properties = {"delta.enableChangeDataFeed": "true"}
    await adelta.write_table(uri, pa.table({"id": [1]}), properties=properties)
    async with adelta.open_table(uri) as table:
        with pytest.raises(InvalidOptionError):
            await call(table)


async def test_metadata_vectors_and_protocols_of_wrong_types_are_not_staged() -> None:
    uri = f"memory://arguments-{uuid.uuid4().hex}/t"
    await adelta.write_table(uri, pa.table({"id": [1]}))
    async with adelta.open_table(uri) as table, table.transaction() as tx:
        for name in ("configuration", "partition_columns", "format_options", "schema_string"):
            with pytest.raises(InvalidOptionError, match=f"Metadata has the {name} 5"):
                tx.update_metadata(replace(tx.metadata, **{name: 5}))
        for change in (
            {"min_reader_version": "1"},
            {"min_writer_version": 7, "writer_features": (1,)},
        ):
            with pytest.raises(InvalidOptionError, match="Protocol has the"):
                tx.update_metadata(tx.metadata, replace(tx.protocol, **change))
        for wrong in (("i", "x", None, 1), ("i", "x", -1, 1), ("q", "x", 1, 1), (5, "x", 1, 1)):
            vector = adelta.DeletionVectorDescriptor(*wrong)  # type: ignore[arg-type]
            with pytest.raises(InvalidOptionError, match="deletion_vector"):
                tx.add_files([adelta.AddFile("z.parquet", {}, 5, 1, deletion_vector=vector)])
    assert tx.version is None
