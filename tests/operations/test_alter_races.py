"""Other writers who come first while a table is altered: nothing is lost, and nothing misread."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pytest

import adelta
from adelta.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    InvalidUseError,
    MetadataChangedError,
    ProtocolChangedError,
)
from adelta.operations import (
    add_columns,
    add_constraint,
    add_feature,
    change_column,
    cluster_by,
    create_table,
    delete,
    drop_columns,
    drop_feature,
    history,
    rename_column,
    set_properties,
    write_table,
)
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.stores import Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.storage.object_store import ObjectStore

    Act = Callable[[Table], Awaitable[object]]

R = TypeVar("R")

ROWS = pa.table({"id": pa.array([1, 2], pa.int32()), "p": ["x", "y"]})
MORE = pa.table({"id": pa.array([3], pa.int32()), "p": ["z"]})
NULL = pa.table({"id": pa.array([None], pa.int32()), "p": ["z"]})
MAPPED = {"delta.columnMapping.mode": "name"}
WIDENING = {"delta.enableTypeWidening": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}

append: Act = partial(write_table, data=MORE)


class OvertakingStore(WrappedStore):
    """A store in which, right before its user's first commit, another writer commits."""

    def __init__(self, inner: ObjectStore, other: Act) -> None:
        super().__init__(inner)
        self.other: Act | None = other

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        commit = request.kind == "put" and request.path.endswith(".json")
        if commit and "_delta_log" in request.path and self.other is not None:
            other, self.other = self.other, None
            await other(Table("memory://t", {"aws_region": "elsewhere"}, store=self.inner))
        return await run()


async def race(act: Act, other: Act, **properties: str) -> tuple[Table, Exception | None]:
    """The table after `act`, which `other` overtakes; and what `act` raised."""
    store = MemoryStore()
    await write_table(Table("memory://t", store=store), ROWS, properties=properties)
    try:
        await act(Table("memory://t", store=OvertakingStore(store, other)))
    except (CommitConflictError, InvalidUseError) as error:
        return Table("memory://t", store=store), error
    return Table("memory://t", store=store), None


async def rows(table: Table) -> list[tuple[Any, ...]]:
    found = await (await table.snapshot()).scan().to_arrow()
    return sorted(zip(*found.to_pydict().values(), strict=True), key=str)


@pytest.mark.parametrize(
    ("act", "properties", "expected"),
    [
        (partial(rename_column, column="p", new_name="q"), MAPPED, [(1, "x"), (2, "y"), (3, "z")]),
        (partial(drop_columns, columns=["p"]), MAPPED, [(1,), (2,), (3,)]),
        (partial(set_properties, properties=MAPPED), {}, [(1, "x"), (2, "y"), (3, "z")]),
        (
            partial(change_column, column="id", type="bigint"),
            WIDENING,
            [(1, "x"), (2, "y"), (3, "z")],
        ),
        (
            partial(change_column, column="p", first=True, comment="first"),
            {},
            [("x", 1), ("y", 2), ("z", 3)],
        ),
        (
            partial(add_columns, columns=pa.schema({"n": pa.int64()})),
            {},
            [(1, "x", None), (2, "y", None), (3, "z", None)],
        ),
        (partial(cluster_by, columns=["id"]), {}, [(1, "x"), (2, "y"), (3, "z")]),
        (partial(drop_feature, name="typeWidening"), WIDENING, [(1, "x"), (2, "y"), (3, "z")]),
        (partial(drop_feature, name="deletionVectors"), VECTORS, [(1, "x"), (2, "y"), (3, "z")]),
        (partial(add_feature, name="domainMetadata"), {}, [(1, "x"), (2, "y"), (3, "z")]),
    ],
)
async def test_rows_that_are_appended_meanwhile_are_read_as_if_they_had_come_later(
    act: Act, properties: dict[str, str], expected: list[tuple[Any, ...]]
) -> None:
    table, error = await race(act, append, **properties)
    assert error is None
    assert await rows(table) == expected
    operations = [entry.operation for entry in await history(table)]
    assert operations[::-1][1] == "WRITE"  # the other one did come first


@pytest.mark.parametrize(
    ("act", "other", "properties"),
    [
        (partial(change_column, column="id", nullable=False), partial(write_table, data=NULL), {}),
        (partial(add_constraint, name="c", expression="id < 3"), append, {}),
        (partial(drop_feature, name="columnMapping"), append, MAPPED),
    ],
)
async def test_what_holds_for_every_row_or_file_conflicts_with_new_ones(
    act: Act, other: Act, properties: dict[str, str]
) -> None:
    """Nulls, rows that break a constraint, and files under physical names."""
    table, error = await race(act, other, **properties)
    assert isinstance(error, ConcurrentAppendError)
    assert (await table.snapshot()).version == 1
    assert len(await rows(table)) == 3


async def test_an_identity_column_is_synchronised_with_all_values_or_not_at_all() -> None:
    schema = pa.schema([adelta.identity_column("id", always=False), ("p", pa.string())])
    table = await create_table("memory://identities/t", schema)
    await write_table(table, pa.table({"id": [7], "p": ["x"]}))
    late = partial(write_table, data=pa.table({"id": [9], "p": ["y"]}))
    with pytest.raises(ConcurrentAppendError):
        await change_column(
            Table("memory://t", store=OvertakingStore(table.store, late)), "id", sync_identity=True
        )
    await change_column(table, "id", sync_identity=True)
    await write_table(table, pa.table({"p": ["z"]}))
    assert await rows(table) == [(10, "z"), (7, "x"), (9, "y")]


async def test_a_deletion_vector_that_comes_meanwhile_keeps_its_feature() -> None:
    table, error = await race(
        partial(drop_feature, name="deletionVectors"), partial(delete, where="id = 1"), **VECTORS
    )
    protocol = (await table.snapshot()).protocol
    assert await rows(table) == [(2, "y")]
    if error is not None:
        assert "deletionVectors" in (protocol.reader_features or ())
        await drop_feature(table, "deletionVectors")
    assert (await table.snapshot()).protocol.reader_features is None
    files = await (await table.snapshot()).files()
    assert files.column("deletion_vector").null_count == files.num_rows
    assert await rows(table) == [(2, "y")]


@pytest.mark.parametrize(
    ("act", "other"),
    [
        (
            partial(drop_columns, columns=["p"]),
            partial(add_constraint, name="c", expression="p > ''"),
        ),
        (
            partial(rename_column, column="p", new_name="q"),
            partial(rename_column, column="p", new_name="r"),
        ),
        (
            partial(cluster_by, columns=["p"]),
            partial(drop_columns, columns=["p"]),
        ),
        (
            partial(set_properties, properties={"own": "1"}),
            partial(set_properties, properties={"own": "2"}),
        ),
    ],
)
async def test_two_who_alter_a_table_at_once_do_not_undo_each_other(act: Act, other: Act) -> None:
    table, error = await race(act, other, **MAPPED, **{"delta.feature.clustering": "supported"})
    assert isinstance(error, MetadataChangedError | ProtocolChangedError)
    assert (await table.snapshot()).version == 1


async def test_the_version_from_which_timestamps_count_is_the_one_that_the_commit_became() -> None:
    on = {"delta.enableInCommitTimestamps": "true"}
    table, error = await race(partial(set_properties, properties=on), append)
    assert error is None
    properties = (await table.snapshot()).properties
    assert properties["delta.inCommitTimestampEnablementVersion"] == "2"
