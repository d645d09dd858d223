"""DESCRIBE and SHOW."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.sql.statements import (
    DescribeDetail,
    DescribeHistory,
    DescribeTable,
    ShowColumns,
    ShowDefinition,
    ShowPartitions,
    ShowProperties,
)

if TYPE_CHECKING:
    from adelta.sql.grammar.reader import Reader

__all__ = ["read_describe", "read_show"]


def read_describe(reader: Reader) -> DescribeDetail | DescribeHistory | DescribeTable:
    """``DESCRIBE HISTORY``, ``DESCRIBE DETAIL`` and ``DESCRIBE [TABLE] [EXTENDED] t [column]``."""
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
    table = reader.table()
    said_otherwise = reader.follows("AS", "JSON") or reader.follows("PARTITION", "(")
    if said_otherwise or reader.token.kind not in ("word", "quoted"):
        return DescribeTable(table, extended)
    return DescribeTable(table, extended, reader.path())


def read_show(
    reader: Reader,
) -> ShowColumns | ShowProperties | ShowPartitions | ShowDefinition:
    """``SHOW COLUMNS IN``, ``TBLPROPERTIES``, ``PARTITIONS`` and ``CREATE TABLE``."""
    reader.expect("SHOW")
    if reader.accept("COLUMNS"):
        reader.expect_one("IN", "FROM")
        return ShowColumns(reader.table())
    if reader.accept("CREATE", "TABLE"):
        return ShowDefinition(reader.table())
    if reader.accept("PARTITIONS"):
        table = reader.table()
        return ShowPartitions(table, reader.properties() if reader.accept("PARTITION") else {})
    reader.expect("TBLPROPERTIES")
    table, key = reader.table(), None
    if reader.accept("("):
        key = reader.property_key()
        reader.expect(")")
    return ShowProperties(table, key)
