"""ALTER TABLE, and COMMENT ON, which is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.sql.grammar.definition import read_column
from adelta.sql.statements import (
    AddColumns,
    AddConstraint,
    AddedColumn,
    AlterTable,
    ChangeColumn,
    ClusterBy,
    DropColumns,
    DropConstraint,
    DropFeature,
    RenameColumn,
    ReplaceColumns,
    SetProperties,
    UnsetProperties,
)

if TYPE_CHECKING:
    from adelta.sql.grammar.reader import Reader
    from adelta.sql.statements import Change, ColumnDefinition

__all__ = ["read_alter", "read_comment"]


def read_alter(reader: Reader) -> AlterTable:
    """``ALTER TABLE name change``."""
    reader.expect("ALTER", "TABLE")
    return AlterTable(reader.table(), _change(reader))


def read_comment(reader: Reader) -> AlterTable:
    """``COMMENT ON TABLE name IS 'text'`` and ``COMMENT ON COLUMN name.column IS 'text'``."""
    reader.expect("COMMENT", "ON")
    if reader.accept("COLUMN"):
        table, column = reader.column_of_table()
        return AlterTable(table, ChangeColumn((column,), comment=_comment(reader)))
    reader.expect("TABLE")
    return AlterTable(reader.table(), SetProperties({"comment": _comment(reader)}))


def _comment(reader: Reader) -> str:
    reader.expect("IS")
    return "" if reader.accept("NULL") else reader.string()


def _change(reader: Reader) -> Change:
    begin = reader.token
    if reader.accept("ADD"):
        return _add(reader)
    if reader.accept("DROP"):
        return _drop(reader)
    if reader.accept("REPLACE", "COLUMNS"):
        return ReplaceColumns(reader.listed(lambda: _one_of_all(reader)))
    if reader.accept("RENAME", "COLUMN"):
        column = reader.path()
        reader.expect("TO")
        return RenameColumn(column, reader.name("the new name"))
    if reader.accept("ALTER") or reader.accept("CHANGE"):
        return _column(reader, begin.upper)
    if reader.accept("SET", "TBLPROPERTIES"):
        return SetProperties(reader.properties())
    if reader.accept("UNSET", "TBLPROPERTIES"):
        if_exists = reader.accept("IF", "EXISTS")
        return UnsetProperties(reader.listed(reader.property_key), if_exists)
    if reader.accept("CLUSTER", "BY"):
        return ClusterBy(() if reader.accept("NONE") else reader.listed(reader.path))
    raise reader.error(
        "expected ADD, DROP, RENAME COLUMN, REPLACE COLUMNS, ALTER COLUMN, SET TBLPROPERTIES, "
        "UNSET TBLPROPERTIES or CLUSTER BY"
    )


def _add(reader: Reader) -> Change:
    if reader.accept("CONSTRAINT"):
        name = reader.name("the name of a constraint")
        reader.expect("CHECK", "(")
        condition = reader.node()
        reader.expect(")")
        return AddConstraint(name, condition.text)
    if not (reader.accept("COLUMNS") or reader.accept("COLUMN")):
        reader.fail("expected COLUMN, COLUMNS or CONSTRAINT")
    return AddColumns(reader.listed(lambda: _added(reader), parentheses=reader.follows("(")))


def _added(reader: Reader) -> AddedColumn:
    path = reader.path()
    definition = read_column(reader, path[-1])
    first, after = _position(reader)
    return AddedColumn(path, definition, first, after)


def _one_of_all(reader: Reader) -> ColumnDefinition:
    return read_column(reader, reader.name("the name of a column"))


def _position(reader: Reader) -> tuple[bool, str | None]:
    if reader.accept("FIRST"):
        return True, None
    return False, reader.name("the name of a column") if reader.accept("AFTER") else None


def _drop(reader: Reader) -> Change:
    if reader.accept("CONSTRAINT"):
        if_exists = reader.accept("IF", "EXISTS")
        return DropConstraint(reader.name("the name of a constraint"), if_exists)
    if reader.accept("FEATURE"):
        quoted = reader.token.kind in ("string", "raw")
        name = reader.string() if quoted else reader.name("the name of a table feature")
        return DropFeature(name, reader.accept("TRUNCATE", "HISTORY"))
    if not (reader.accept("COLUMNS") or reader.accept("COLUMN")):
        reader.fail("expected COLUMN, COLUMNS, CONSTRAINT or FEATURE")
    if_exists = reader.accept("IF", "EXISTS")
    return DropColumns(reader.listed(reader.path, parentheses=reader.follows("(")), if_exists)


def _column(reader: Reader, word: str) -> ChangeColumn:
    reader.accept("COLUMN")
    path = reader.path()
    if reader.accept("TYPE"):
        return ChangeColumn(path, type=reader.type())
    if reader.accept("COMMENT"):
        return ChangeColumn(path, comment=reader.string())
    if reader.accept("SET", "NOT", "NULL"):
        return ChangeColumn(path, nullable=False)
    if reader.accept("DROP", "NOT", "NULL"):
        return ChangeColumn(path, nullable=True)
    if reader.accept("SET", "DEFAULT"):
        return ChangeColumn(path, default=reader.node().text)
    if reader.accept("DROP", "DEFAULT"):
        return ChangeColumn(path, default="")
    if reader.accept("SYNC", "IDENTITY"):
        return ChangeColumn(path, sync_identity=True)
    if reader.follows("FIRST") or reader.follows("AFTER"):
        first, after = _position(reader)
        return ChangeColumn(path, first=first, after=after)
    if word == "CHANGE" and reader.token.kind in ("word", "quoted"):
        return _hive(reader, path)
    raise reader.error(
        "expected TYPE, COMMENT, FIRST, AFTER, SET NOT NULL, DROP NOT NULL, SET DEFAULT, DROP "
        "DEFAULT or SYNC IDENTITY"
    )


def _hive(reader: Reader, path: tuple[str, ...]) -> ChangeColumn:
    """``CHANGE COLUMN name name type [COMMENT …] [FIRST | AFTER …]``."""
    begin = reader.token
    if reader.name().lower() != path[-1].lower():
        reader.fail("expected the name that the column has: a new one is for RENAME COLUMN", begin)
    data_type = reader.type()
    comment = reader.string() if reader.accept("COMMENT") else None
    first, after = _position(reader)
    return ChangeColumn(path, type=data_type, comment=comment, first=first, after=after)
