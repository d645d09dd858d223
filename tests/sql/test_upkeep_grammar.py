"""Statements of upkeep, MERGE and CLONE: what text means which values."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest

from adelta.errors import InvalidStatementError
from adelta.kernel.expressions.nodes import Column, Comparison, Literal
from adelta.kernel.schema.types import INTEGER, STRING
from adelta.sql.grammar.definition import read_create
from adelta.sql.grammar.reader import Reader
from adelta.sql.grammar.rows import read_merge
from adelta.sql.grammar.upkeep import (
    read_analyze,
    read_convert,
    read_generate,
    read_optimize,
    read_reorg,
    read_restore,
    read_vacuum,
)
from adelta.sql.statements import (
    Analyze,
    AsOf,
    Assignment,
    ColumnDefinition,
    ConvertToDelta,
    CreateClone,
    CreateTable,
    Expression,
    Generate,
    MergeClause,
    Optimize,
    Query,
    Reorg,
    Restore,
    TableName,
    Vacuum,
)

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")
T, S = TableName(("t",)), TableName(("s",))
P_IS_1 = Expression(Comparison("=", Column(("p",)), Literal(1, INTEGER)), "p = 1")


def read(how: Callable[[Reader], R], text: str) -> R:
    reader = Reader(text)
    found = how(reader)
    reader.end()
    return found


@pytest.mark.parametrize(
    ("how", "text", "value"),
    [
        (read_optimize, "OPTIMIZE t", Optimize(T)),
        (read_optimize, "OPTIMIZE '/lake/t' FULL", Optimize(TableName(path="/lake/t"), full=True)),
        (read_optimize, "OPTIMIZE t WHERE p = 1 ZORDER BY (a, b.c)",
         Optimize(T, where=P_IS_1, zorder_by=(("a",), ("b", "c")))),
        (read_optimize, "optimize t zorder by a, b", Optimize(T, zorder_by=(("a",), ("b",)))),
        (read_vacuum, "VACUUM t", Vacuum(T)),
        (read_vacuum, "VACUUM t DRY RUN RETAIN 0.5 HOURS LITE",
         Vacuum(T, "lite", retain_hours=0.5, dry_run=True)),
        (read_vacuum, "VACUUM t USING INVENTORY s RETAIN 168 HOURS",
         Vacuum(T, inventory=S, retain_hours=168)),
        (read_restore, "RESTORE TABLE t TO VERSION AS OF 3", Restore(T, AsOf(version=3))),
        (read_restore, "RESTORE t TIMESTAMP AS OF '2024-01-01'",
         Restore(T, AsOf(timestamp=Literal("2024-01-01", STRING)))),
        (read_convert, "CONVERT TO DELTA parquet.`/lake/t` NO STATISTICS PARTITIONED BY (p INT)",
         ConvertToDelta(TableName(path="/lake/t"), "parquet",
                        (ColumnDefinition("p", INTEGER),), statistics=False)),
        (read_convert, "CONVERT TO DELTA iceberg.`/lake/t`",
         ConvertToDelta(TableName(path="/lake/t"), "iceberg")),
        (read_generate, "GENERATE symlink_format_manifest FOR TABLE t",
         Generate(T, "symlink_format_manifest")),
        (read_reorg, "REORG TABLE t WHERE p = 1 APPLY (PURGE)", Reorg(T, P_IS_1)),
        (read_reorg, "REORG TABLE t APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))",
         Reorg(T, iceberg_compat=2)),
        (read_analyze, "ANALYZE TABLE t COMPUTE DELTA STATISTICS", Analyze(T)),
        (read_analyze, "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS a, b.c",
         Analyze(T, (("a",), ("b", "c")))),
        (read_create, "CREATE TABLE IF NOT EXISTS t SHALLOW CLONE s VERSION AS OF 2 "
         "TBLPROPERTIES (a = 1) LOCATION '/there'",
         CreateClone(T, S, "create if not exists", shallow=True, source_as_of=AsOf(version=2),
                     properties={"a": "1"}, location="/there")),
        (read_create, "CREATE TABLE t LIKE s USING delta LOCATION '/there'",
         CreateTable(T, "create", like=S, provider="delta", location="/there")),
        (read_create, "CREATE OR REPLACE TABLE t CLONE s",
         CreateClone(T, S, "create or replace", shallow=False)),
    ],
)  # fmt: skip
def test_a_statement_is_read(how, text, value):
    assert read(how, text) == value


@pytest.mark.parametrize(
    ("how", "text", "position", "message"),
    [
        (read_vacuum, "VACUUM t LITE FULL", 14, "FULL or LITE is there twice"),
        (read_vacuum, "VACUUM t RETAIN 5L HOURS", 16, "expected a number"),
        (read_vacuum, "VACUUM t LITE USING INVENTORY s", 31, "no inventory"),
        (read_restore, "RESTORE t TO 5", 13, "expected VERSION AS OF"),
        (read_generate, "GENERATE other FOR TABLE t", 9, "symlink_format_manifest"),
        (read_reorg, "REORG TABLE t APPLY (ELSE)", 21, "expected PURGE"),
        (read_merge, "MERGE INTO t USING s ON a = b", 29, "expected WHEN MATCHED"),
        (read_merge, "MERGE INTO t USING s ON a WHEN NOT MATCHED THEN UPDATE SET *", 48, "INSERT"),
        (read_merge, "MERGE INTO t USING s ON a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)",
         69, "2 columns are named, and there are 1 values"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_by_its_place(how, text, position, message):
    with pytest.raises(InvalidStatementError) as caught:
        read(how, text)
    assert message in str(caught.value)
    assert caught.value.position == position


def test_a_merge_is_read_clause_by_clause():
    found = read(
        read_merge,
        "MERGE WITH SCHEMA EVOLUTION INTO db.t AS o USING (SELECT * FROM s) n ON o.id = n.id "
        "WHEN MATCHED AND n.gone THEN DELETE "
        "WHEN MATCHED AND o.v <> n.v THEN UPDATE SET o.v = n.v, w = DEFAULT "
        "WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED BY TARGET AND n.v > 1 THEN INSERT (id, o.v) VALUES (n.id, DEFAULT) "
        "WHEN NOT MATCHED THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 0 "
        "WHEN NOT MATCHED BY SOURCE AND o.v = 1 THEN DELETE",
    )
    assert (found.table, found.target_alias, found.source_alias) == (
        TableName(("db", "t")),
        "o",
        "n",
    )
    assert isinstance(found.source, Query)
    assert (found.source.text, found.evolves_schema, found.on.text) == (
        "SELECT * FROM s",
        True,
        "o.id = n.id",
    )
    clauses = [(c.when, c.action, c.condition and c.condition.text) for c in found.clauses]
    assert clauses == [
        ("matched", "delete", "n.gone"),
        ("matched", "update", "o.v <> n.v"),
        ("matched", "update all", None),
        ("not matched", "insert", "n.v > 1"),
        ("not matched", "insert all", None),
        ("not matched by source", "update", None),
        ("not matched by source", "delete", "o.v = 1"),
    ]  # fmt: skip
    assert found.clauses[1].assignments[1] == Assignment(("w",), None)
    inserted = found.clauses[3]
    assert isinstance(inserted, MergeClause)
    assert [each.column for each in inserted.assignments] == [("id",), ("o", "v")]
    assert inserted.assignments[1].value is None
