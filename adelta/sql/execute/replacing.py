"""INSERT INTO … REPLACE USING and REPLACE ON: rows of a query in the place of those that match."""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import SchemaMismatchError
from adelta.kernel.expressions.nodes import Column
from adelta.kernel.schema.names import apart
from adelta.operations.merge.run import MergeOptions
from adelta.operations.merge.source import GivenSource
from adelta.operations.replace_matching import ReplaceRequest
from adelta.operations.replace_matching import run_replacing as replace_rows
from adelta.sql.execute.merge import with_schema
from adelta.sql.execute.query import query_rows
from adelta.sql.execute.rows import in_order, renamed
from adelta.sql.execute.values import values_table
from adelta.sql.records import INSERTED, table_of
from adelta.sql.statements import Values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    import pyarrow as pa

    from adelta.kernel.schema.types import StructType
    from adelta.operations.merge.source import MergeSource
    from adelta.sql.session import Session
    from adelta.sql.statements import InsertReplacing

__all__ = ["check_aligned", "replace_request", "run_replacing"]

_SOURCE, _TARGET = "source", "target"


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows under `names`, which differ; those of `given` are not DEFAULT in all of them.

    They are made of the `versions` of tables, by address.
    """

    rows: MergeSource
    names: Sequence[str]
    given: Sequence[str]
    versions: Mapping[str, int]


async def run_replacing(statement: InsertReplacing, session: Session) -> pa.Table:
    """Write rows, and delete those that they match."""
    async with session.opened(statement.table) as table:
        schema = (await table.snapshot()).delta_schema
        async with _source(statement, schema, session) as source:
            asked = await in_thread(
                replace_request, statement, schema, source.names, session, source.given
            )
            options = MergeOptions(
                user_metadata=session.user_metadata,
                at_version=source.versions.get(table.uri),
                made_of_it=table.uri in source.versions,
            )
            done = await replace_rows(table, GivenSource(source.rows), asked, options)
    written = done.num_target_rows_inserted
    return table_of(INSERTED, [(written, written)])


def replace_request(
    statement: InsertReplacing,
    schema: StructType,
    names: Sequence[str],
    session: Session,
    given: Sequence[str] | None = None,
) -> ReplaceRequest:
    """What the statement asks of a table of these columns, for rows of columns of these names.

    Rows have values in the columns `given`, by default in all.

    Raises:
        SchemaMismatchError: there are more or fewer columns than the table has, or a column by
            which rows match is elsewhere among them.
    """
    target = statement.target_alias or (statement.table.parts or (_TARGET,))[-1]
    source = statement.source_alias or (_SOURCE if target.lower() != _SOURCE else _TARGET)
    values = None
    if not statement.by_name:
        check_aligned(statement.using or (), schema.names, names)
        wanted = in_order(schema, names)
        values = tuple(
            (name, Column((source, own)))
            for name, own in zip(wanted, names, strict=True)
            if given is None or own in given
        )
    return ReplaceRequest(
        statement.using,
        None if statement.on is None else statement.on.node,
        source,
        target,
        values,
        statement.evolves_schema,
        session.zone,
        session.now,
        None if statement.on is None else statement.on.text,
    )


def check_aligned(using: Sequence[str], of_table: Sequence[str], of_rows: Sequence[str]) -> None:
    """Refuse rows that are inserted by the order of columns, and match by columns at other places.

    Raises:
        SchemaMismatchError: they are so.
    """
    table, rows = ([name.lower() for name in names] for names in (of_table, of_rows))
    known = [name for name in using if name.lower() in table and name.lower() in rows]
    apart = [name for name in known if table.index(name.lower()) != rows.index(name.lower())]
    if apart:
        raise SchemaMismatchError(
            f"rows are inserted by the order of their columns, and have {', '.join(apart)}, by "
            "which they are to match, at another place than the table: bring the columns into its "
            "order, or say BY NAME",
            reason="replaced_by_misaligned_columns",
        )


@asynccontextmanager
async def _source(
    statement: InsertReplacing, schema: StructType, session: Session
) -> AsyncIterator[_Rows]:
    """The rows that the statement brings."""
    source = statement.source
    if isinstance(source, Values):
        names = [f"col{place + 1}" for place in range(max(map(len, source.rows)))]
        wanted = names if statement.by_name else in_order(schema, names)
        table = await in_thread(values_table, source, wanted, schema, session)
        given = [names[wanted.index(name)] for name in table.column_names]
        yield _Rows(table.rename_columns(given), names, given, {})
        return
    async with query_rows(source, session) as running:
        names = apart(running.schema.names)
        rows_schema = running.schema
        for place, name in enumerate(names):
            rows_schema = rows_schema.set(place, rows_schema.field(place).with_name(name))
        async with aclosing(renamed(running, names, {})) as batches:
            rows = await with_schema(rows_schema, batches)
            yield _Rows(rows, names, names, running.versions)
