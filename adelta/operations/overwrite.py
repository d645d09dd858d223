"""Overwriting a part of a table: the rows under a condition, or the partitions of the new rows.

Both read the table, and what they read is part of their transaction: a commit that comes between
and adds rows which would have been overwritten is a conflict.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._arrow_values import array_of
from adelta._concurrency import in_thread
from adelta.kernel.expressions.casts import cast_values
from adelta.kernel.expressions.nodes import (
    And,
    Cast,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    disjunction,
    walk,
)
from adelta.kernel.partition import (
    lookup_partition_value,
    parse_partition_values,
    serialise_partition_values,
)
from adelta.kernel.schema.names import physical_name
from adelta.kernel.schema.types import DOUBLE, FLOAT, STRING, TIMESTAMP
from adelta.kernel.statistics import num_records
from adelta.kernel.table_features import DELETION_VECTORS
from adelta.operations.copies import copied_rows
from adelta.operations.matching import decided_by_partition, find_matches
from adelta.operations.removal import remove_rows
from adelta.write.change_data import INSERT, ChangeDataWriter
from adelta.write.spec import WriteSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import StructField
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.operations.matching import MatchedFile
    from adelta.storage.roots import StoreRoots
    from adelta.write.batches import Data
    from adelta.write.transaction_core import TransactionCore

__all__ = [
    "overwrite_partitions",
    "overwrite_where",
    "replace_partitions",
    "replace_where",
]


async def overwrite_where(tx: TransactionCore, roots: StoreRoots, data: Data, where: Node) -> None:
    """Stage the removal of the rows for which `where` is true, and the rows of `data`.

    A file that holds other rows too is written anew with these, or gets a deletion vector where the
    table has these.

    Raises:
        InvariantViolationError: a row of `data` does not satisfy `where`, or the table only takes
            appends.
        InvalidExpressionError: the predicate does not fit the schema.
    """
    if await tx.is_applied():
        return
    files = await tx.read(where)
    configuration = tx.configuration
    configuration.check_removable(roots.store.uri)
    if await in_thread(decided_by_partition, where, configuration):
        await tx.write(data, where)
        await tx.stage_rewrite(removed=files)
        await _count_rows_of(tx, files)
        return
    matched = await find_matches(tx.executor, roots, configuration, files, where)
    if _tells_of_inserts(configuration, matched):
        spec = WriteSpec.of(configuration)
        async with ChangeDataWriter(roots.store, spec) as changes:
            await tx.write(data, where, changes=changes)
            tx.stage_written(cdc=await changes.finish())
    else:
        await tx.write(data, where)
    await _remove_replaced_rows(tx, roots, configuration, matched)


async def replace_where(
    tx: TransactionCore, roots: StoreRoots, added: Sequence[AddFile], where: Node
) -> None:
    """Stage files that are written already, in place of the rows for which `where` is true.

    That it is true for the rows of `added` is the caller's to see to.

    Raises:
        InvariantViolationError: the table only takes appends.
        InvalidExpressionError: the predicate does not fit the schema.
    """
    files = await tx.read(where)
    configuration = tx.configuration
    configuration.check_removable(roots.store.uri)
    tx.stage_written(adds=added)
    if await in_thread(decided_by_partition, where, configuration):
        await tx.stage_rewrite(removed=files)
        await _count_rows_of(tx, files)
        return
    matched = await find_matches(tx.executor, roots, configuration, files, where)
    if _tells_of_inserts(configuration, matched):
        async with (
            ChangeDataWriter(roots.store, WriteSpec.of(configuration)) as changes,
            aclosing(copied_rows(roots, configuration, added)) as rows,
        ):
            async for batch in rows:
                await changes.write(batch, INSERT)
            tx.stage_written(cdc=await changes.finish())
    await _remove_replaced_rows(tx, roots, configuration, matched)


async def _remove_replaced_rows(
    tx: TransactionCore,
    roots: StoreRoots,
    configuration: TableConfiguration,
    matched: Sequence[MatchedFile],
) -> None:
    """Stage the removal of the matched rows, and report the metrics that Delta Spark reports.

    Delta Spark counts a file that gets a deletion vector as a written file, and its remaining rows
    as copied rows.
    """
    copied = await remove_rows(tx, roots, configuration, matched)
    masked: list[MatchedFile] = []
    if configuration.uses(DELETION_VECTORS):
        masked = [each for each in matched if not each.is_whole]
    kept = sum(each.num_live - len(each.rows) for each in masked)
    _add_metrics(
        tx,
        numFiles=len(masked),
        numOutputBytes=sum(each.file.size for each in masked),
        numOutputRows=kept,
        numDeletedRows=sum(len(each.rows) for each in matched),
        numCopiedRows=copied + kept,
    )


async def _count_rows_of(tx: TransactionCore, files: Sequence[AddFile]) -> None:
    """Report the rows of removed files, if the statistics of every file have a row count."""
    num_rows = await in_thread(_num_live_rows, files)
    if num_rows is None:
        _add_metrics(tx)
    else:
        _add_metrics(tx, numDeletedRows=num_rows, numCopiedRows=0)


def _num_live_rows(files: Sequence[AddFile]) -> int | None:
    """How many rows the files have that are not deleted; None if one of them has no row count."""
    total = 0
    for file in files:
        count = num_records(file.stats)
        if count is None:
            return None
        total += count - (0 if file.deletion_vector is None else file.deletion_vector.cardinality)
    return total


def _add_metrics(tx: TransactionCore, **metrics: int) -> None:
    """Add to the metrics of the commit; those that Delta Spark always reports are 0 at least."""
    for name, value in {"numAddedChangeFiles": 0, "numRemovedFiles": 0, **metrics}.items():
        tx.metrics[name] = tx.metrics.get(name, 0) + value
    tx.metrics.setdefault("numRemovedBytes", 0)


async def overwrite_partitions(tx: TransactionCore, data: Data) -> None:
    """Stage the rows of `data`, and the removal of all files in the partitions that they are in.

    Raises:
        InvariantViolationError: the table only takes appends.
    """
    if await tx.is_applied():
        return
    await replace_partitions(tx, await tx.write(data))


async def replace_partitions(tx: TransactionCore, added: Sequence[AddFile]) -> None:
    """Stage the removal of the files in the partitions of `added`, which are staged already.

    Raises:
        InvariantViolationError: the table only takes appends.
    """
    configuration = tx.configuration
    mode = configuration.column_mapping_mode
    fields = configuration.partition_fields
    names = [physical_name(field, mode) for field in fields]
    partitions = list(
        dict.fromkeys(tuple(file.partition_values[name] for name in names) for file in added)
    )
    if not partitions:
        return
    where = await in_thread(_in_partitions, fields, partitions)
    found = await tx.read(where)
    # `read` also finds other partitions: by casts, and since 0.0 and -0.0 are equal.
    if any(isinstance(node, Cast) for node in walk(where)) or any(
        field.type in (FLOAT, DOUBLE) for field in fields
    ):
        theirs = [
            tuple(lookup_partition_value(file.partition_values, name) for name in names)
            for file in found
        ]
        wanted = set(await in_thread(_spelt_alike, fields, partitions))
        keys = await in_thread(_spelt_alike, fields, theirs)
        found = [file for file, key in zip(found, keys, strict=True) if key in wanted]
    tx.remove(found)


def _tells_of_inserts(configuration: TableConfiguration, matched: Sequence[MatchedFile]) -> bool:
    """Whether the change data feed has to be told of new rows, beside those that go.

    Whole files and vectors tell its readers what went, and files that are written anew do not.
    """
    vectors = configuration.uses(DELETION_VECTORS)
    anew = not vectors and any(not each.is_whole for each in matched)
    return configuration.change_data_feed_enabled and anew


# ------------------------------------------------------------------------------------- partitions


def _in_partitions(
    fields: Sequence[StructField], partitions: Sequence[tuple[str | None, ...]]
) -> Node:
    """The condition that a row is in one of `partitions`, which are texts of the log."""
    columns = [
        _constants(field, [values[place] for values in partitions])
        for place, field in enumerate(fields)
    ]
    if len(fields) == 1:
        column = Column((fields[0].name,))
        known = tuple(each for each in columns[0] if not _is_null(each))
        parts: list[Node] = [In(column, known)] if known else []
        if len(known) < len(columns[0]):
            parts.append(IsNull(column))
        return disjunction(*parts)
    return disjunction(
        *(
            And(
                tuple(
                    Comparison("<=>", Column((field.name,)), literal)
                    for field, literal in zip(fields, row, strict=True)
                )
            )
            for row in zip(*columns, strict=True)
        )
    )


def _constants(field: StructField, texts: Sequence[str | None]) -> list[Literal | Cast]:
    """What the texts stand for; dates and times that Python lacks are cast from other texts."""
    values = parse_partition_values(array_of(texts, pa.string()), field.type, column=field.name)
    try:
        return [Literal(value, field.type) for value in values.to_pylist()]
    except (OverflowError, ValueError):
        shown = cast_values(values, STRING).to_pylist()
    zone = "Z" if field.type == TIMESTAMP else ""
    return [
        Literal(None, field.type)
        if text is None
        else Cast(Literal(f"{text}{zone}", STRING), field.type)
        for text in shown
    ]


def _spelt_alike(
    fields: Sequence[StructField], partitions: Sequence[tuple[str | None, ...]]
) -> list[tuple[str | None, ...]]:
    """The texts of partitions, each value in one spelling."""
    columns: list[Sequence[str | None]] = []
    for place, field in enumerate(fields):
        texts = array_of([values[place] for values in partitions], pa.string())
        values = parse_partition_values(texts, field.type, column=field.name)
        columns.append(serialise_partition_values(values, field.type).to_pylist())
    return list(zip(*columns, strict=True))


def _is_null(constant: Literal | Cast) -> bool:
    return isinstance(constant, Literal) and constant.value is None
