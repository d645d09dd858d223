"""OPTIMIZE, VACUUM, RESTORE, CONVERT TO DELTA, GENERATE, REORG and ANALYZE."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.sql.grammar.definition import read_partitions, read_source
from adelta.sql.grammar.query import read_query
from adelta.sql.statements import (
    Analyze,
    ConvertToDelta,
    Generate,
    Optimize,
    Reorg,
    Restore,
    TableName,
    Vacuum,
)

if TYPE_CHECKING:
    from adelta.sql.grammar.reader import Reader
    from adelta.sql.statements import Path, Query

__all__ = [
    "read_analyze",
    "read_convert",
    "read_generate",
    "read_optimize",
    "read_purge",
    "read_reorg",
    "read_restore",
    "read_vacuum",
]


def read_optimize(reader: Reader) -> Optimize:
    """``OPTIMIZE table [FULL] [WHERE …] [ZORDER BY …]``."""
    reader.expect("OPTIMIZE")
    table = reader.table()
    full = reader.accept("FULL")
    where = reader.node() if reader.accept("WHERE") else None
    zorder_by: tuple[Path, ...] = ()
    if reader.accept("ZORDER", "BY"):
        zorder_by = reader.listed(reader.path, parentheses=reader.follows("("))
    return Optimize(table, full, where, zorder_by)


def read_vacuum(reader: Reader) -> Vacuum:
    """``VACUUM table``, and its modifiers in any order, each once."""
    reader.expect("VACUUM")
    found = Vacuum(reader.table())
    said: set[str] = set()
    while reader.token.kind == "word":
        begin = reader.token
        word = {"LITE": "FULL or LITE", "FULL": "FULL or LITE"}.get(begin.upper, begin.upper)
        if word in said:
            reader.fail(f"{word} is there twice", begin)
        said.add(word)
        if reader.accept("LITE"):
            found = replace(found, mode="lite")
        elif reader.accept("FULL"):
            found = replace(found, mode="full")
        elif reader.accept("USING"):
            reader.expect("INVENTORY")
            found = replace(found, inventory=_inventory(reader))
        elif reader.accept("RETAIN"):
            found = replace(found, retain_hours=reader.number())
            reader.expect("HOURS")
        elif reader.accept("DRY"):
            reader.expect("RUN")
            found = replace(found, dry_run=True)
        else:
            reader.fail("expected FULL, LITE, USING INVENTORY, RETAIN or DRY RUN")
    if found.inventory is not None and found.mode == "lite":
        reader.fail("LITE takes its list of files from the log, and so no inventory")
    return found


def _inventory(reader: Reader) -> TableName | Query:
    if not reader.accept("("):
        return reader.table()
    query = read_query(reader)
    reader.expect(")")
    return query


def read_restore(reader: Reader) -> Restore:
    """``RESTORE [TABLE] table [TO] VERSION | TIMESTAMP AS OF …``."""
    reader.expect("RESTORE")
    if reader.ahead().operator != "." and reader.ahead().upper not in ("TO", "VERSION", "FOR"):
        reader.accept("TABLE")
    table = reader.table()
    reader.accept("TO")
    as_of = reader.as_of()
    if as_of is None:
        reader.fail("expected VERSION AS OF or TIMESTAMP AS OF")
    return Restore(table, as_of)


def read_convert(reader: Reader) -> ConvertToDelta:
    """``CONVERT TO DELTA (parquet | iceberg).`path` [NO STATISTICS] [PARTITIONED BY (…)]``."""
    reader.expect("CONVERT", "TO", "DELTA")
    name, source = read_source(reader)
    statistics = not reader.accept("NO", "STATISTICS")
    return ConvertToDelta(name, source or "parquet", read_partitions(reader), statistics)


def read_generate(reader: Reader) -> Generate:
    """``GENERATE mode FOR TABLE table``."""
    reader.expect("GENERATE")
    begin = reader.token
    mode = reader.name("symlink_format_manifest")
    if mode.lower() != "symlink_format_manifest":
        reader.fail("expected symlink_format_manifest, which is all that can be generated", begin)
    reader.expect("FOR", "TABLE")
    return Generate(reader.table(), mode.lower())


def read_reorg(reader: Reader) -> Reorg:
    """``REORG TABLE table [WHERE …] APPLY (PURGE | UPGRADE UNIFORM (…))``."""
    reader.expect("REORG", "TABLE")
    table = reader.table()
    where = reader.node() if reader.accept("WHERE") else None
    reader.expect("APPLY", "(")
    version = None
    if where is None and reader.accept("UPGRADE", "UNIFORM", "("):
        reader.expect("ICEBERG_COMPAT_VERSION", "=")
        version = reader.integer()
        reader.expect(")")
    else:
        reader.expect("PURGE")
    reader.expect(")")
    return Reorg(table, where, version)


def read_purge(reader: Reader) -> Reorg:
    """``REORG TABLE table [WHERE …] APPLY (PURGE)``."""
    begin = reader.token
    found = read_reorg(reader)
    if found.iceberg_compat is not None:
        reader.fail("expected APPLY (PURGE), which is all that adelta does so", begin)
    return found


def read_analyze(reader: Reader) -> Analyze:
    """``ANALYZE TABLE table COMPUTE [DELTA] STATISTICS [FOR [ALL] COLUMNS …]``."""
    reader.expect("ANALYZE", "TABLE")
    table = reader.table()
    reader.expect("COMPUTE")
    reader.accept("DELTA")
    reader.expect("STATISTICS")
    if reader.accept("FOR", "ALL", "COLUMNS"):
        return Analyze(table, all_columns=True)
    if reader.accept("FOR", "COLUMNS"):
        parentheses = reader.follows("(")
        return Analyze(table, reader.listed(reader.path, parentheses=parentheses))
    return Analyze(table)
