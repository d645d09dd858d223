"""Overwriting a part of a table: the rows under a condition, or the partitions of the new rows.

Both read the table, and what they read is part of their transaction: a commit that comes between
and adds rows which would have been overwritten is a conflict.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._concurrency import in_thread
from adelta.errors import UnsupportedFeatureError
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.expressions.compute import can_fail
from adelta.kernel.expressions.nodes import (
    TRUE,
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    columns_of,
    disjunction,
)
from adelta.kernel.expressions.resolve import bind_predicate
from adelta.kernel.partition import parse_partition_values
from adelta.kernel.scan_plan import plan_columns
from adelta.kernel.schema.names import physical_name
from adelta.kernel.table_configuration import TableConfiguration
from adelta.operations.staging import copied_rows
from adelta.read.data_files import Piece, read_pieces
from adelta.transaction import append_copies, remove_replaced

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import StructField
    from adelta.storage.roots import StoreRoots
    from adelta.transaction import Transaction
    from adelta.write.batches import Data

__all__ = ["overwrite_partitions", "overwrite_where"]


async def overwrite_where(tx: Transaction, roots: StoreRoots, data: Data, where: Node) -> None:
    """Stage the removal of the rows for which `where` is true, and the rows of `data`.

    A file that holds other rows too is written anew with these.

    Raises:
        InvariantViolationError: a row of `data` does not satisfy `where`, or the table only takes
            appends.
        InvalidExpressionError: the predicate does not fit the schema.
        UnsupportedFeatureError: rows of the table's change data feed would be lost.
    """
    if await tx.is_applied():
        return
    files = await tx.read(where)
    configuration = TableConfiguration(tx.protocol, tx.metadata)
    await tx.append(data, where)
    if await in_thread(_decided_by_partition, where, configuration):
        remove_replaced(tx, files)
        return
    hit = await _files_with_matches(roots, configuration, files, where)
    if not hit:
        return
    kept = copied_rows(roots, configuration, hit, Not(Comparison("<=>", where, TRUE)))
    async with aclosing(kept):
        if not configuration.change_data_feed_enabled:
            await append_copies(tx, kept)
        elif await _has_rows(kept):
            raise UnsupportedFeatureError(
                f"{roots.store.uri} keeps a change data feed, and some of its files hold rows that "
                "replace_where matches beside others: to take rows out of a file, change data "
                "files are needed, which this adelta does not write; choose a condition on "
                "partition columns alone, or set delta.enableChangeDataFeed to false first"
            )
    remove_replaced(tx, hit)


async def overwrite_partitions(tx: Transaction, data: Data) -> None:
    """Stage the rows of `data`, and the removal of all files in the partitions that they are in.

    Raises:
        InvariantViolationError: the table only takes appends.
    """
    if await tx.is_applied():
        return
    added = await tx.append(data)
    configuration = TableConfiguration(tx.protocol, tx.metadata)
    mode = configuration.column_mapping_mode
    fields = configuration.partition_fields
    names = [physical_name(field, mode) for field in fields]
    partitions = list(
        dict.fromkeys(tuple(file.partition_values[name] for name in names) for file in added)
    )
    if partitions:
        where = await in_thread(_in_partitions, fields, partitions)
        remove_replaced(tx, await tx.read(where))


# ------------------------------------------------------------------------------------------- rows


def _decided_by_partition(where: Node, configuration: TableConfiguration) -> bool:
    """Whether the partition values of a file say of all of its rows whether `where` is true."""
    bound = bind_predicate(where, configuration.schema)
    columns = {field.name for field in configuration.partition_fields}
    return not can_fail(bound) and all(path[0] in columns for path in columns_of(bound))


async def _files_with_matches(
    roots: StoreRoots, configuration: TableConfiguration, files: Sequence[AddFile], where: Node
) -> list[AddFile]:
    """Those of `files` that do hold a row for which `where` is true."""
    plan = plan_columns(
        configuration.schema,
        columns=[],
        where=where,
        partition_columns=configuration.partition_columns,
        mapping_mode=configuration.column_mapping_mode,
    )
    found: dict[str, AddFile] = {}
    async with aclosing(read_pieces(roots, plan, (Piece(file) for file in files))) as tables:
        async for piece, table in tables:
            if table.num_rows:
                found[decode_path(piece.file.path)] = piece.file
    return list(found.values())


async def _has_rows(batches: AsyncGenerator[pa.RecordBatch, None]) -> bool:
    async for batch in batches:
        if batch.num_rows:
            return True
    return False


# ------------------------------------------------------------------------------------- partitions


def _in_partitions(
    fields: Sequence[StructField], partitions: Sequence[tuple[str | None, ...]]
) -> Node:
    """The condition that a row is in one of `partitions`, which are texts of the log."""
    columns = [
        _literals(field, [values[place] for values in partitions])
        for place, field in enumerate(fields)
    ]
    if len(fields) == 1:
        column = Column((fields[0].name,))
        known = tuple(literal for literal in columns[0] if literal.value is not None)
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


def _literals(field: StructField, texts: Sequence[str | None]) -> list[Literal]:
    values = parse_partition_values(pa.array(texts, pa.string()), field.type, column=field.name)
    return [Literal(value, field.type) for value in values.to_pylist()]
