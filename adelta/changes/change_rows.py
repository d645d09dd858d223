"""Changed rows: what they look like, and how pieces of data files become them."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta._arrow_values import scalar_of
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.kernel.scan_plan import ScanPlan, plan_columns
from adelta.kernel.schema.names import PHYSICAL_NAME_KEY
from adelta.kernel.schema.types import LONG, STRING, TIMESTAMP, StructField, StructType
from adelta.kernel.table_features import CHANGE_TYPE
from adelta.read.data_files import READ_AHEAD_BYTES, Piece, read_pieces

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence

    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.storage.roots import StoreRoots

__all__ = [
    "CHANGE_TYPE",
    "COMMIT_TIMESTAMP",
    "COMMIT_VERSION",
    "Change",
    "change_columns",
    "change_plan",
    "change_rows",
    "label",
]

COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"

_BATCH_ROWS = 64 * 1024
_EXTRA: tuple[pa.Field[Any], ...] = (
    pa.field(CHANGE_TYPE, pa.string()),
    pa.field(COMMIT_VERSION, pa.int64()),
    pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", "UTC")),
)


@dataclass(frozen=True, slots=True)
class Change:
    """What the rows of a piece are: of which commit, and which change; None where they say so."""

    version: int
    timestamp_ms: int
    kind: str | None


def change_plan(
    configuration: TableConfiguration, columns: Sequence[str] | None, where: Node | None = None
) -> ScanPlan:
    """The plan of the columns asked for, and of the change type, which some files hold.

    Of rows for which `where` holds alone, if there is one.

    Raises:
        InvalidOptionError: what a change is was asked for, and comes anyway.
        SchemaMismatchError: there is no such column.
    """
    named = {PHYSICAL_NAME_KEY: CHANGE_TYPE}  # files call it so, whatever they call the others
    kind = StructField(CHANGE_TYPE, STRING, metadata=named)
    schema = StructType((*configuration.schema.fields, kind))
    wanted = configuration.schema.names if columns is None else tuple(columns)
    if CHANGE_TYPE in wanted and configuration.schema.field(CHANGE_TYPE) is None:
        raise InvalidOptionError(
            f"{CHANGE_TYPE!r} is no column of the table; name the table's own: what a change is, "
            "and when it was, comes with every row"
        )
    return plan_columns(
        schema,
        columns=(*wanted, CHANGE_TYPE),
        where=where,
        partition_columns=configuration.partition_columns,
        mapping_mode=configuration.column_mapping_mode,
    )


def change_columns(plan: ScanPlan) -> StructType:
    """The columns of the rows that `change_rows` makes of a plan."""
    own = [field for field in plan.output if field.name != CHANGE_TYPE]
    extra = ((CHANGE_TYPE, STRING), (COMMIT_VERSION, LONG), (COMMIT_TIMESTAMP, TIMESTAMP))
    return StructType((*own, *(StructField(name, data_type) for name, data_type in extra)))


async def change_rows(
    roots: StoreRoots,
    plan: ScanPlan,
    pieces: Iterable[Piece] | AsyncIterator[Piece],
    *,
    read_ahead_bytes: int = READ_AHEAD_BYTES,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The rows that `plan` makes of pieces, each tagged with the `Change` that its rows are.

    Raises:
        MissingDataFileError: a file is not there.
        InvalidTableError: a file is damaged.
        SchemaMismatchError: a file's column cannot be converted to the table's type.
    """
    read = read_pieces(roots, plan, pieces, read_ahead_bytes=read_ahead_bytes)
    async with aclosing(read) as found:
        async for piece, table in found:
            labelled = await in_thread(label, piece, table)
            for batch in labelled.to_batches(max_chunksize=_BATCH_ROWS):
                if batch.num_rows:
                    yield batch


def label(piece: Piece, table: pa.Table) -> pa.Table:
    """Rows of a piece as changed rows: with what its `Change` says of them."""
    change = piece.tag
    assert isinstance(change, Change)
    rows = table.num_rows
    kinds: Any = table.column(CHANGE_TYPE)
    if change.kind is not None:
        kinds = pa.repeat(scalar_of(change.kind, pa.string()), rows)
    time = scalar_of(change.timestamp_ms * 1000, pa.int64()).cast(pa.timestamp("us", "UTC"))
    version = scalar_of(change.version, pa.int64())
    table = table.drop_columns([CHANGE_TYPE])
    repeat: Any = pa.repeat  # the stubs do not know all scalars
    columns = (kinds, repeat(version, rows), repeat(time, rows))
    for field, values in zip(_EXTRA, columns, strict=True):
        table = table.append_column(field, values)
    return table
