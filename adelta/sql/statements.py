"""Statements as frozen values: what was written, clause by clause, and nothing of what it means.

Names are unresolved, and expressions are nodes that no schema has been held against.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypeAlias

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import DataType

__all__ = [
    "READING",
    "AddColumns",
    "AddConstraint",
    "AddedColumn",
    "AlterTable",
    "Analyze",
    "AsOf",
    "Assignment",
    "ChangeColumn",
    "ClusterBy",
    "ColumnDefinition",
    "ConvertToDelta",
    "CreateClone",
    "CreateTable",
    "Delete",
    "DescribeDetail",
    "DescribeHistory",
    "DescribeTable",
    "DropColumns",
    "DropConstraint",
    "DropFeature",
    "Expression",
    "Generate",
    "Identity",
    "Insert",
    "InsertReplacing",
    "Merge",
    "MergeAction",
    "MergeClause",
    "Optimize",
    "Path",
    "Query",
    "RenameColumn",
    "Reorg",
    "ReplaceColumns",
    "Restore",
    "SetProperties",
    "ShowColumns",
    "ShowDefinition",
    "ShowPartitions",
    "ShowProperties",
    "Statement",
    "TableName",
    "TableReference",
    "TruncateTable",
    "UnsetProperties",
    "Update",
    "Vacuum",
    "Values",
]

Path: TypeAlias = tuple[str, ...]
"""The name of a column: ``address.city`` is ``("address", "city")``."""


@dataclass(frozen=True, slots=True)
class TableName:
    """What a statement calls a table: the parts of a name, or the address itself as `path`.

    Both ``delta.`/lake/t` `` and ``'/lake/t'`` are addresses. `position` is where it is written.
    """

    parts: tuple[str, ...] = ()
    path: str | None = None
    position: int = field(default=0, compare=False)

    def __str__(self) -> str:
        """As a message shows it."""
        return ".".join(self.parts) if self.path is None else f"`{self.path}`"


@dataclass(frozen=True, slots=True)
class AsOf:
    """Which version of a table: its number, or a time, which is an expression without columns."""

    version: int | None = None
    timestamp: Node | None = None


@dataclass(frozen=True, slots=True)
class TableReference:
    """A table that a query reads, and where in the query's text the reference begins and ends.

    `has_alias` says that another name for the table stands right behind it.
    """

    name: TableName
    as_of: AsOf | None
    start: int
    end: int
    has_alias: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """``SELECT …``, ``WITH …``, ``VALUES …``: its text, and the tables that it may read.

    A reference may turn out to be one to a name that the query itself defines.
    """

    text: str
    references: tuple[TableReference, ...] = ()


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression, and its text as it was written; the text alone of one with a query in it."""

    node: Node
    text: str
    has_query: bool = False


# ------------------------------------------------------------------------------------ definitions


@dataclass(frozen=True, slots=True)
class Identity:
    """``GENERATED … AS IDENTITY``; `always` says that rows cannot bring numbers of their own."""

    always: bool
    start: int = 1
    step: int = 1


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column of a table that is to be; `default` and `generated` are SQL text."""

    name: str
    type: DataType
    nullable: bool = True
    comment: str | None = None
    default: str | None = None
    generated: str | None = None
    identity: Identity | None = None
    limit: str | None = None
    """``varchar(n)`` or ``char(n)``, where the type was written so."""


@dataclass(frozen=True, slots=True)
class CreateTable:
    """``CREATE [OR REPLACE] TABLE [IF NOT EXISTS]`` and ``REPLACE TABLE``, with rows or without.

    `checks` are constraints by name. Where `columns` is empty they are those of the rows, or, with
    all else that is not said, those of the table `like`.
    """

    table: TableName
    mode: Literal["create", "create if not exists", "replace", "create or replace"]
    columns: tuple[ColumnDefinition, ...] = ()
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[Path, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    checks: Mapping[str, str] = field(default_factory=dict, hash=False)
    comment: str | None = None
    location: str | None = None
    provider: str | None = None
    query: Query | None = None
    like: TableName | None = None


# ------------------------------------------------------------------------------------------- rows


@dataclass(frozen=True, slots=True)
class Values:
    """``VALUES (…), (…)``: rows of expressions, of which None is ``DEFAULT``."""

    rows: tuple[tuple[Node | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Insert:
    """``INSERT [WITH SCHEMA EVOLUTION] INTO`` and ``OVERWRITE``, of `VALUES` or a query.

    `columns` are those that the rows have values for, in order; None is all. `partition` are the
    constants of ``PARTITION (…)``, of which None is a partition that the rows say themselves.
    """

    table: TableName
    source: Values | Query
    overwrite: bool = False
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    replace_where: Expression | None = None
    partition: tuple[tuple[str, Node | None], ...] = ()
    evolves_schema: bool = False


@dataclass(frozen=True, slots=True)
class InsertReplacing:
    """``INSERT INTO … REPLACE USING`` and ``REPLACE ON``: in the place of rows that match.

    Columns of the query are for those of the table by their order, unless it is said `by_name`.
    """

    table: TableName
    source: Values | Query
    using: tuple[str, ...] | None = None
    on: Expression | None = None
    by_name: bool = False
    target_alias: str | None = None
    source_alias: str | None = None
    evolves_schema: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """``DELETE FROM``."""

    table: TableName
    alias: str | None = None
    where: Expression | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """``column = value``; a value of None is ``DEFAULT``."""

    column: Path
    value: Expression | None


@dataclass(frozen=True, slots=True)
class Update:
    """``UPDATE … SET``."""

    table: TableName
    assignments: tuple[Assignment, ...]
    alias: str | None = None
    where: Expression | None = None


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """``TRUNCATE TABLE``."""

    table: TableName


MergeAction: TypeAlias = Literal["delete", "update", "update all", "insert", "insert all"]


@dataclass(frozen=True, slots=True)
class MergeClause:
    """``WHEN … [AND condition] THEN action``.

    The values of an ``insert`` are assignments to its columns.
    """

    when: Literal["matched", "not matched", "not matched by source"]
    action: MergeAction
    condition: Expression | None = None
    assignments: tuple[Assignment, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """``MERGE [WITH SCHEMA EVOLUTION] INTO``; the clauses are in the order written."""

    table: TableName
    source: TableName | Query
    on: Expression
    clauses: tuple[MergeClause, ...]
    target_alias: str | None = None
    source_alias: str | None = None
    evolves_schema: bool = False
    source_as_of: AsOf | None = None


# -------------------------------------------------------------------------------------- ALTER TABLE


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A column to add: under `path`, whose last name is its own."""

    path: Path
    definition: ColumnDefinition
    first: bool = False
    after: str | None = None


@dataclass(frozen=True, slots=True)
class AddColumns:
    """``ADD COLUMNS``."""

    columns: tuple[AddedColumn, ...]


@dataclass(frozen=True, slots=True)
class ReplaceColumns:
    """``REPLACE COLUMNS``."""

    columns: tuple[ColumnDefinition, ...]


@dataclass(frozen=True, slots=True)
class DropColumns:
    """``DROP COLUMNS``."""

    columns: tuple[Path, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """``RENAME COLUMN … TO``."""

    column: Path
    new_name: str


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """``ALTER COLUMN`` and ``CHANGE COLUMN``: what is None stays; an empty `default` is dropped."""

    column: Path
    type: DataType | None = None
    nullable: bool | None = None
    comment: str | None = None
    default: str | None = None
    first: bool = False
    after: str | None = None
    sync_identity: bool = False


@dataclass(frozen=True, slots=True)
class SetProperties:
    """``SET TBLPROPERTIES``."""

    properties: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class UnsetProperties:
    """``UNSET TBLPROPERTIES``."""

    names: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """``ADD CONSTRAINT … CHECK``; the condition is SQL text."""

    name: str
    condition: str


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """``DROP CONSTRAINT``."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ClusterBy:
    """``CLUSTER BY``; no columns are ``NONE``."""

    columns: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class DropFeature:
    """``DROP FEATURE [TRUNCATE HISTORY]``."""

    name: str
    truncate_history: bool = False


Change: TypeAlias = (
    AddColumns
    | ReplaceColumns
    | DropColumns
    | RenameColumn
    | ChangeColumn
    | SetProperties
    | UnsetProperties
    | AddConstraint
    | DropConstraint
    | ClusterBy
    | DropFeature
)


@dataclass(frozen=True, slots=True)
class AlterTable:
    """``ALTER TABLE``, one change a statement."""

    table: TableName
    change: Change


# -------------------------------------------------------------------------------- what is looked at


@dataclass(frozen=True, slots=True)
class DescribeHistory:
    """``DESCRIBE HISTORY``."""

    table: TableName
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class DescribeDetail:
    """``DESCRIBE DETAIL``."""

    table: TableName


@dataclass(frozen=True, slots=True)
class DescribeTable:
    """``DESCRIBE [TABLE] [EXTENDED]``; of one `column` where that is named."""

    table: TableName
    extended: bool = False
    column: Path = ()


@dataclass(frozen=True, slots=True)
class ShowColumns:
    """``SHOW COLUMNS IN``."""

    table: TableName


@dataclass(frozen=True, slots=True)
class ShowProperties:
    """``SHOW TBLPROPERTIES``, of which `key` is one."""

    table: TableName
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ShowPartitions:
    """``SHOW PARTITIONS``, those with the values of `wanted`, as folders are called by them."""

    table: TableName
    wanted: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class ShowDefinition:
    """``SHOW CREATE TABLE``."""

    table: TableName


# ------------------------------------------------------------------------------------------- upkeep


@dataclass(frozen=True, slots=True)
class Optimize:
    """``OPTIMIZE [FULL] [WHERE …] [ZORDER BY …]``."""

    table: TableName
    full: bool = False
    where: Expression | None = None
    zorder_by: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Vacuum:
    """``VACUUM [LITE | FULL] [USING INVENTORY …] [RETAIN n HOURS] [DRY RUN]``."""

    table: TableName
    mode: Literal["full", "lite"] = "full"
    inventory: TableName | Query | None = None
    retain_hours: float | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Restore:
    """``RESTORE TABLE … TO VERSION | TIMESTAMP AS OF``."""

    table: TableName
    as_of: AsOf


@dataclass(frozen=True, slots=True)
class ConvertToDelta:
    """``CONVERT TO DELTA``; `source` is the format, ``parquet`` or ``iceberg``."""

    table: TableName
    source: str
    partition_by: tuple[ColumnDefinition, ...] = ()
    statistics: bool = True


@dataclass(frozen=True, slots=True)
class CreateClone:
    """``CREATE TABLE … SHALLOW | DEEP CLONE``; `partition_by` are columns of a Parquet folder."""

    table: TableName
    source: TableName
    mode: Literal["create", "create if not exists", "replace", "create or replace"]
    shallow: bool
    source_as_of: AsOf | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    location: str | None = None
    source_format: Literal["delta", "parquet", "iceberg"] = "delta"
    partition_by: tuple[ColumnDefinition, ...] = ()


@dataclass(frozen=True, slots=True)
class Generate:
    """``GENERATE mode FOR TABLE``."""

    table: TableName
    mode: str


@dataclass(frozen=True, slots=True)
class Reorg:
    """``REORG TABLE … APPLY (PURGE)``, or with `iceberg_compat` ``APPLY (UPGRADE UNIFORM (…))``."""

    table: TableName
    where: Expression | None = None
    iceberg_compat: int | None = None


@dataclass(frozen=True, slots=True)
class Analyze:
    """``ANALYZE TABLE … COMPUTE [DELTA] STATISTICS``; no `columns` are those that it collects."""

    table: TableName
    columns: tuple[Path, ...] = ()
    all_columns: bool = False


READING = (
    Query,
    DescribeDetail,
    DescribeHistory,
    DescribeTable,
    ShowColumns,
    ShowDefinition,
    ShowPartitions,
    ShowProperties,
)
"""The statements that change nothing."""

Statement: TypeAlias = (
    Query
    | CreateTable
    | Insert
    | InsertReplacing
    | Delete
    | Update
    | TruncateTable
    | Merge
    | AlterTable
    | DescribeHistory
    | DescribeDetail
    | DescribeTable
    | ShowColumns
    | ShowDefinition
    | ShowPartitions
    | ShowProperties
    | Optimize
    | Vacuum
    | Restore
    | ConvertToDelta
    | CreateClone
    | Generate
    | Reorg
    | Analyze
)
"""Any statement."""
