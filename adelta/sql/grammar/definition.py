"""CREATE and REPLACE TABLE."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from adelta.kernel.schema.types import LONG, STRING
from adelta.sql.grammar.query import begins_query, read_query
from adelta.sql.grammar.reader import FORMATS
from adelta.sql.statements import ColumnDefinition, CreateClone, CreateTable, Identity, TableName

if TYPE_CHECKING:
    from adelta.sql.grammar.reader import Reader
    from adelta.sql.statements import Path

__all__ = ["read_column", "read_create", "read_partitions", "read_source"]

Mode = Literal["create", "create if not exists", "replace", "create or replace"]

OtherFormat = Literal["parquet", "iceberg"]

_OTHER_FORMATS: tuple[OtherFormat, ...] = ("parquet", "iceberg")
_LIMITED = ("VARCHAR", "CHAR", "CHARACTER")


def read_create(reader: Reader) -> CreateTable | CreateClone:
    """``[CREATE [OR REPLACE] | REPLACE] TABLE …``, of columns, a query, like a table or a clone."""
    mode = _header(reader)
    table = reader.table()
    if reader.accept("SHALLOW", "CLONE"):
        return _clone(reader, table, mode, shallow=True)
    if reader.accept("DEEP", "CLONE") or reader.accept("CLONE"):
        return _clone(reader, table, mode, shallow=False)
    if mode in ("create", "create if not exists") and reader.accept("LIKE"):
        return _clauses(reader, CreateTable(table, mode, like=reader.table()))
    return _definition(reader, table, mode)


def _definition(reader: Reader, table: TableName, mode: Mode) -> CreateTable:
    definition = CreateTable(table, mode)
    if reader.follows("(") and not begins_query(reader):
        definition = _with_columns(reader, definition)
    definition = _clauses(reader, definition)
    if reader.accept("AS") or begins_query(reader):
        definition = replace(definition, query=read_query(reader))
    defined = definition.columns or definition.query is not None
    if not defined and definition.location is None:  # else it may be a table that is there
        reader.fail("expected the columns of the table, or AS and a query")
    return definition


def _header(reader: Reader) -> Mode:
    creates = reader.accept("CREATE")
    replaces = (not creates or reader.accept("OR")) and reader.accept("REPLACE")
    reader.accept("EXTERNAL")
    reader.expect("TABLE")
    if replaces:
        return "create or replace" if creates else "replace"
    if reader.accept("IF"):
        reader.expect_one("!", "NOT")
        reader.expect("EXISTS")
        return "create if not exists"
    return "create"


def _with_columns(reader: Reader, definition: CreateTable) -> CreateTable:
    columns: list[ColumnDefinition] = []
    checks: dict[str, str] = {}

    def one() -> None:
        if reader.follows("CONSTRAINT") and reader.ahead(2).upper == "CHECK":
            reader.take()
            name = reader.name("the name of a constraint")
            checks[name] = _check(reader)
        else:
            columns.append(read_column(reader, reader.name("the name of a column")))

    reader.listed(one)
    return replace(definition, columns=tuple(columns), checks=checks)


def _check(reader: Reader) -> str:
    reader.expect("CHECK", "(")
    condition = reader.node()
    reader.expect(")")
    return condition.text


def read_column(reader: Reader, name: str) -> ColumnDefinition:
    """The type of a column and what else is said of it; its name has been read."""
    limit = None
    if reader.token.upper in _LIMITED:
        limit = reader.type_text().lower().replace("character", "char").replace(" ", "")
        column = ColumnDefinition(name, STRING, limit=limit)
    else:
        column = ColumnDefinition(name, reader.type())
    while True:
        if reader.follows("NOT", "NULL") or reader.follows("!", "NULL"):
            reader.take()
            reader.take()
            column = replace(column, nullable=False)
        elif reader.accept("COMMENT"):
            column = replace(column, comment=reader.string())
        elif reader.accept("DEFAULT"):
            column = replace(column, default=reader.node().text)
        elif reader.follows("GENERATED"):
            column = _generated(reader, column)
        else:
            return column


def _generated(reader: Reader, column: ColumnDefinition) -> ColumnDefinition:
    begin = reader.token
    reader.expect("GENERATED")
    always = reader.accept("ALWAYS")
    if not always:
        reader.expect("BY", "DEFAULT")
    reader.expect("AS")
    if not reader.accept("IDENTITY"):
        if not always:
            reader.fail("expected IDENTITY")
        reader.expect("(")
        expression = reader.node()
        reader.expect(")")
        return replace(column, generated=expression.text)
    if column.type != LONG:
        reader.fail(f"the identity column {column.name!r} has to be of the type BIGINT", begin)
    identity = Identity(always)
    if reader.accept("("):
        while not reader.accept(")"):
            if reader.accept("START", "WITH") or reader.accept("START"):
                identity = replace(identity, start=reader.integer())
            elif reader.accept("INCREMENT", "BY") or reader.accept("INCREMENT"):
                identity = replace(identity, step=reader.integer())
            else:
                reader.fail("expected START WITH, INCREMENT BY or )")
            reader.accept(",")
    return replace(column, identity=identity)


def _clauses(reader: Reader, definition: CreateTable) -> CreateTable:
    said: set[str] = set()
    while True:
        begin = reader.token
        if reader.accept("USING"):
            name = ".".join(reader.path("a format"))
            if name.lower() not in FORMATS:
                reader.fail(f"adelta has no tables of {name!r}: write USING delta", begin)
            definition = replace(definition, provider=name)
        elif reader.accept("PARTITIONED", "BY"):
            definition = _partitions(reader, definition)
        elif reader.accept("CLUSTER", "BY"):
            definition = replace(definition, cluster_by=_cluster_columns(reader))
        elif reader.accept("TBLPROPERTIES"):
            definition = replace(definition, properties=reader.properties())
        elif reader.accept("COMMENT"):
            definition = replace(definition, comment=reader.string())
        elif reader.accept("LOCATION"):
            definition = replace(definition, location=reader.string())
        else:
            return definition
        if begin.upper in said:
            reader.fail(f"the clause {begin.upper} is there twice", begin)
        said.add(begin.upper)


def _partitions(reader: Reader, definition: CreateTable) -> CreateTable:
    """``PARTITIONED BY (a, b)``; columns with types are defined there, as Hive has it."""
    added: list[ColumnDefinition] = []

    def one() -> str:
        name = reader.name("the name of a column")
        if reader.follows(",") or reader.follows(")"):
            return name
        if reader.follows("("):
            reader.fail("expected the name of a column: make a generated column of an expression")
        added.append(read_column(reader, name))
        return name

    columns = reader.listed(one)
    return replace(definition, partition_by=columns, columns=(*definition.columns, *added))


def _cluster_columns(reader: Reader) -> tuple[Path, ...]:
    if reader.accept("NONE"):
        return ()
    return reader.listed(reader.path)


def _clone(reader: Reader, table: TableName, mode: Mode, *, shallow: bool) -> CreateClone:
    source, kind = read_source(reader)
    clone = CreateClone(table, source, mode, shallow, source_format=kind or "delta")
    if kind is None:
        clone = replace(clone, source_as_of=reader.as_of())
    elif kind == "parquet":
        clone = replace(clone, partition_by=read_partitions(reader))
    if reader.accept("TBLPROPERTIES"):
        clone = replace(clone, properties=reader.properties())
    return replace(clone, location=reader.string() if reader.accept("LOCATION") else None)


def read_source(reader: Reader) -> tuple[TableName, OtherFormat | None]:
    """A table, or ``parquet.`path` `` or ``iceberg.`path` ``, which are no Delta tables."""
    begin = reader.token
    name = reader.table()
    for kind in _OTHER_FORMATS:
        if len(name.parts) == 2 and name.parts[0].lower() == kind:
            return TableName(path=name.parts[1], position=begin.at), kind
    return name, None


def read_partitions(reader: Reader) -> tuple[ColumnDefinition, ...]:
    """``[PARTITIONED BY (column type, …)]`` of a folder of Parquet files."""
    if not reader.accept("PARTITIONED", "BY"):
        return ()
    return reader.listed(lambda: read_column(reader, reader.name()))
