"""DESCRIBE and SHOW."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.sql.statements import (
    DescribeDetail,
    DescribeHistory,
    DescribeTable,
    ShowColumns,
    ShowProperties,
)

if TYPE_CHECKING:
    from adelta.sql.grammar.reader import Reader

__all__ = ["read_describe", "read_show"]


def read_describe(reader: Reader) -> DescribeDetail | DescribeHistory | DescribeTable:
    """``DESCRIBE HISTORY``, ``DESCRIBE DETAIL`` and ``DESCRIBE [TABLE] [EXTENDED]``."""
    reader.expect_one("DESC", "DESCRIBE")
    named = reader.ahead().kind in ("word", "quoted", "string", "raw")
    if named and reader.accept("HISTORY"):
        table = reader.table()
        return DescribeHistory(table, reader.integer() if reader.accept("LIMIT") else None)
    if named and reader.accept("DETAIL"):
        return DescribeDetail(reader.table())
    reader.accept("TABLE")
    named = reader.ahead().kind in ("word", "quoted", "string", "raw")
    extended = named and (reader.accept("EXTENDED") or reader.accept("FORMATTED"))
    return DescribeTable(reader.table(), extended)


def read_show(reader: Reader) -> ShowColumns | ShowProperties:
    """``SHOW COLUMNS IN`` and ``SHOW TBLPROPERTIES``."""
    reader.expect("SHOW")
    if reader.accept("COLUMNS"):
        reader.expect_one("IN", "FROM")
        return ShowColumns(reader.table())
    reader.expect("TBLPROPERTIES")
    table, key = reader.table(), None
    if reader.accept("("):
        key = reader.property_key()
        reader.expect(")")
    return ShowProperties(table, key)
