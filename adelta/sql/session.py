"""What statements are run with: the tables that names mean, how they are opened, the time zone."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from adelta import _clock
from adelta._arguments import address
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError, InvalidUseError, TableNotFoundError
from adelta.kernel.expressions.char_padding import padded
from adelta.kernel.expressions.nodes import Cast, Column, Literal, children_of, with_children
from adelta.kernel.expressions.resolve import bind, bind_predicate
from adelta.kernel.expressions.text_values import UTC_NAMES, parse_timestamp
from adelta.kernel.schema.types import DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ, StructType
from adelta.table import Table, TableOrAddress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from datetime import datetime

    from adelta.kernel.expressions.nodes import Node
    from adelta.snapshot import Snapshot
    from adelta.sql.statements import AsOf, TableName
    from adelta.write.batches import ArrowStream
    from adelta.write.commit_options import CommitOptions
    from adelta.write.task_executor import TaskExecutor

    Executors = Callable[[str, Mapping[str, str] | None], TaskExecutor]

__all__ = ["NamedTables", "Session", "plain_path", "unqualified"]

NamedTables: TypeAlias = "Mapping[str, TableOrAddress | ArrowStream]"
"""What names in a statement mean: tables, or rows that are at hand, which it can only read."""


@dataclass(frozen=True, slots=True)
class Session:
    """The circumstances of a statement.

    Attributes:
        tables: what names mean.
        storage_options: how tables are opened that are given by their address.
        zone: the time zone of texts that name none.
        user_metadata: what the table's history is to say besides.
        now: the time that `current_timestamp` and the like stand for.
        executors: makes what carries out the tasks of operations on a table that is given by its
            address, with the options that it is opened by; None is this process.
        enforce_retention: whether VACUUM has to keep files for as long as the table says.
        dynamic_overwrite: whether INSERT OVERWRITE takes the place of those partitions alone that
            it has rows of; None where that is so if it names partitions and no values for them.
        pads_chars: whether columns of ``char(n)`` are compared as `padded` has it.
        made_of: the version of the statement's table that rows at hand were computed from, if any.
        commits: how commits are made to a table that is given by its address; None is as usual.
    """

    tables: NamedTables = field(default_factory=dict)
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    zone: str = "UTC"
    user_metadata: str | None = None
    now: datetime = field(default_factory=_clock.moment)
    executors: Executors | None = None
    enforce_retention: bool = True
    dynamic_overwrite: bool | None = None
    pads_chars: bool = False
    made_of: int | None = None
    commits: CommitOptions | None = None

    def meant(self, name: TableName) -> TableOrAddress | ArrowStream:
        """What a name means.

        Raises:
            TableNotFoundError: nothing.
        """
        if name.path is not None:
            return address(name.path)
        asked = ".".join(name.parts)
        if asked in self.tables:
            return self.tables[asked]
        found = [key for key in self.tables if key.lower() == asked.lower()]
        if len(found) == 1:
            return self.tables[found[0]]
        known = f" (there are {', '.join(sorted(self.tables)[:20])})" if self.tables else ""
        raise TableNotFoundError(
            f"no table is named {asked}{known}: write delta.`path`, or say what the name means by "
            f"tables={{{asked!r}: ...}}"
        )

    def table(self, name: TableName) -> TableOrAddress:
        """The table that a name means.

        Raises:
            TableNotFoundError: it means none.
            InvalidUseError: it means rows that are at hand.
        """
        found = self.meant(name)
        if not isinstance(found, Table | str | os.PathLike):
            raise InvalidUseError(
                f"{name} means rows of a {type(found).__name__}, which statements can read and "
                "not change: name a table"
            )
        return found

    @asynccontextmanager
    async def opened(self, name: TableName) -> AsyncIterator[Table]:
        """A handle on the table that a name means."""
        found = self.table(name)
        if isinstance(found, Table):
            yield found
        else:
            async with self.handle(str(found), self.storage_options) as table:
                yield table

    @asynccontextmanager
    async def handle(self, uri: str, options: Mapping[str, str] | None) -> AsyncIterator[Table]:
        """A handle on the table at an address, whose tasks `executors` carry out."""
        executor = None if self.executors is None else self.executors(uri, options)
        async with Table(uri, options, executor=executor) as table:
            yield table if self.commits is None else table.committing(self.commits)

    async def version(self, table: Table, as_of: AsOf | None) -> Snapshot:
        """The version of a table that a statement asks for.

        Raises:
            VersionNotFoundError: there is none.
            InvalidOptionError: the time is none.
        """
        if as_of is None:
            return await table.snapshot()
        if as_of.timestamp is None:
            return await table.snapshot(version=as_of.version)
        return await table.snapshot(timestamp=await in_thread(self.moment, as_of.timestamp))

    def moment(self, node: Node) -> datetime:
        """The time that an expression without columns stands for.

        Raises:
            InvalidOptionError: it stands for none.
        """
        found = bind(node, StructType(), zone=self.zone)
        if isinstance(found, Literal) and found.type == STRING:
            moment = parse_timestamp(str(found.value), self.zone)
            if moment is not None:
                return moment
        elif isinstance(found, Literal) and found.type in (TIMESTAMP, TIMESTAMP_NTZ, DATE):
            cast = bind(Cast(found, TIMESTAMP), StructType(), zone=self.zone)
            if isinstance(cast, Literal) and cast.value is not None:
                return cast.value  # type: ignore[return-value]  # of a timestamp
        raise InvalidOptionError(
            "TIMESTAMP AS OF needs a time, such as '2024-06-01 12:00:00', that is a constant"
        )

    def condition(self, node: Node, schema: StructType, alias: str | None) -> Node:
        """A condition over rows of `schema`, whose columns may be named as those of `alias`.

        Raises:
            InvalidExpressionError: it does not fit the schema.
        """
        plain = self._plain(node, schema, alias)
        if self.zone in UTC_NAMES:
            return plain
        return bind_predicate(plain, schema, zone=self.zone)

    def value(self, node: Node, schema: StructType, alias: str | None) -> Node:
        """An expression over rows of `schema`, as for `condition`."""
        plain = self._plain(node, schema, alias)
        return plain if self.zone in UTC_NAMES else bind(plain, schema, zone=self.zone)

    def _plain(self, node: Node, schema: StructType, alias: str | None) -> Node:
        plain = unqualified(node, schema, alias)
        return padded(plain, schema) if self.pads_chars else plain


def unqualified(node: Node, schema: StructType, alias: str | None) -> Node:
    """The expression, in which columns are no longer named as those of `alias`."""
    if isinstance(node, Column):
        return Column(plain_path(node.path, schema, alias))
    children = children_of(node)
    return with_children(node, tuple(unqualified(each, schema, alias) for each in children))


def plain_path(path: tuple[str, ...], schema: StructType, alias: str | None) -> tuple[str, ...]:
    """The name of a column without the name of its table."""
    of_table = alias is not None and len(path) > 1 and path[0].lower() == alias.lower()
    return path[1:] if of_table and schema.field(path[1]) is not None else path
