"""Which of delta-spark's conditions errors have, in classic sessions and through Spark Connect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

import adelta.spark
from adelta.errors import AdeltaError
from adelta.spark import DeltaTable, IdentityGenerator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from adelta.spark import DeltaMergeBuilder

__all__ = ["check_conditions"]

_UNRESOLVED = "DELTA_MERGE_UNRESOLVED_EXPRESSION"
_IDENTITY, _NON_LAST = "DELTA_IDENTITY_COLUMNS_", "DELTA_NON_LAST_{}_CLAUSE_OMIT_CONDITION"
_MERGE = "MERGE INTO {numbered} t USING (SELECT 1L AS n, 7 AS v) s ON t.v = s.v "
_OF_STATEMENTS = {
    "ALTER TABLE {} ADD CONSTRAINT no CHECK (v < 0)": "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION",
    "ALTER TABLE {} DROP COLUMN v": "DELTA_UNSUPPORTED_DROP_COLUMN",
    "ALTER TABLE {} DROP CONSTRAINT no": "DELTA_CONSTRAINT_DOES_NOT_EXIST",
    "ALTER TABLE {} RENAME COLUMN v TO w": "DELTA_UNSUPPORTED_RENAME_COLUMN",
    "ALTER TABLE {} SET TBLPROPERTIES ('delta.no' = '1')": "DELTA_UNKNOWN_CONFIGURATION",
    "CREATE TABLE nowhere USING adelta LOCATION '/tmp/no/where'": (
        "DELTA_CREATE_EXTERNAL_TABLE_WITHOUT_SCHEMA"
    ),
    "ALTER TABLE {} SET TBLPROPERTIES ('delta.appendOnly' = '?')": None,
    "DELETE FROM {} WHERE no = 1": "UNRESOLVED_COLUMN.WITH_SUGGESTION",
    "DESCRIBE HISTORY adelta.`/no/where`": "DELTA_MISSING_DELTA_TABLE",
    "INSERT INTO {} VALUES (1, -1)": "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
    "INSERT INTO {numbered} VALUES (9, 'b', 2)": (
        "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED"
    ),
    _MERGE + "WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET v = 2": (
        "NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION"
    ),
    _MERGE + "WHEN MATCHED THEN UPDATE SET n = 9": "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED",
    _MERGE + "WHEN NOT MATCHED THEN INSERT (n, v) VALUES (8, 8)": (
        "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED"
    ),
    _MERGE + "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED THEN INSERT *": (
        "NON_LAST_NOT_MATCHED_BY_TARGET_CLAUSE_OMIT_CONDITION"
    ),
    _MERGE + "WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN NOT MATCHED BY SOURCE THEN DELETE": (
        "NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION"
    ),
    "ALTER TABLE {numbered} ALTER COLUMN p SYNC IDENTITY": (
        "DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN"
    ),
    "OPTIMIZE {clustered} WHERE v = 1": "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE",
    "OPTIMIZE {clustered} ZORDER BY (v)": "DELTA_CLUSTERING_WITH_ZORDER_BY",
    "OPTIMIZE {numbered} WHERE n = 1": "DELTA_NON_PARTITION_COLUMN_REFERENCE",
    "OPTIMIZE {numbered} WHERE no = 1": "DELTA_NON_PARTITION_COLUMN_REFERENCE",
    "OPTIMIZE {numbered} ZORDER BY (p)": "DELTA_ZORDERING_ON_PARTITION_COLUMN",
    "OPTIMIZE {} ZORDER BY (no)": "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST",
    "RESTORE {} TO TIMESTAMP AS OF '1999-01-01'": "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER",
    "RESTORE {} TO VERSION AS OF 99": "DELTA_CANNOT_RESTORE_TABLE_VERSION",
    "UPDATE {numbered} SET n = 9": "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED",
    "SELECT * FROM {} VERSION AS OF 99": "DELTA_VERSION_NOT_FOUND",
    "VACUUM {} RETAIN 0 HOURS": "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT",
}


def check_conditions(spark: SparkSession, path: str) -> None:
    """See that statements, reads and writes that are refused say why as delta-spark does."""
    table = f"adelta.`{path}`"
    numbered, clustered = _made(spark, f"{path}-numbered"), _made(spark, f"{path}-clustered", "v")
    named = {"numbered": f"adelta.`{path}-numbered`", "clustered": f"adelta.`{path}-clustered`"}
    spark.sql("SELECT 1L AS id, 1 AS v").write.format("adelta").save(path)
    adelta.spark.sql(spark, f"ALTER TABLE {table} ADD CONSTRAINT positive CHECK (v > 0)")
    for text, condition in _OF_STATEMENTS.items():
        with pytest.raises(PySparkException) as caught:
            adelta.spark.sql(spark, text.format(table, path=path, **named)).collect()
        assert caught.value.getCondition() == condition, text
    source = spark.sql("SELECT 7 AS v").alias("s")
    rows = spark.sql("SELECT 1L AS n, 'a' AS p, 1 AS v")

    def merge() -> DeltaMergeBuilder:
        return numbered.alias("t").merge(source, "t.v = s.v")

    matched, missing = (
        merge().whenMatchedDelete(),
        merge().whenNotMatchedInsert(values={"v": "s.v"}),
    )
    by_source = merge().whenNotMatchedBySourceDelete()
    stream = spark.readStream.format("adelta").load(path).writeStream.format("adelta")
    stream = stream.outputMode("update").option("checkpointLocation", f"{path}-checkpoint")
    more = "SELECT 2L AS id, {} AS v"
    reader = spark.read.format("adelta").option("versionAsOf", 99)
    for does, condition in (
        (lambda: reader.load(path).collect(), "DELTA_VERSION_NOT_FOUND"),
        (lambda: _append(spark, path, more.format("1 AS u, 1")), "DELTA_METADATA_MISMATCH"),
        (lambda: _append(spark, path, more.format(0)), "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"),
        (lambda: numbered.update(set={"n": "9"}), f"{_IDENTITY}UPDATE_NOT_SUPPORTED"),
        (lambda: _save(rows, f"{path}-numbered"), f"{_IDENTITY}EXPLICIT_INSERT_NOT_SUPPORTED"),
        (merge().execute, "DELTA_MERGE_MISSING_WHEN"),
        (merge().whenMatchedDelete("s.no = 1").execute, _UNRESOLVED),
        (lambda: merge().whenMatchedDelete(f.soundex("s.no") == "a").execute(), _UNRESOLVED),
        (merge().whenMatchedUpdate(set={"v": "s.no"}).execute, _UNRESOLVED),
        (merge().whenMatchedUpdate(set={"no": "s.v"}).execute, _UNRESOLVED),
        (merge().whenNotMatchedInsert(values={"v": "t.v"}).execute, _UNRESOLVED),
        (merge().whenNotMatchedInsertAll().execute, _UNRESOLVED),
        (merge().whenMatchedUpdate(set={"v": "1", "V": "2"}).execute, "DELTA_CONFLICT_SET_COLUMN"),
        (lambda: numbered.update(set={"no": "1"}), "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        (lambda: numbered.restoreToTimestamp("no"), "DELTA_TIMESTAMP_INVALID"),
        (matched.whenMatchedDelete().execute, _NON_LAST.format("MATCHED")),
        (missing.whenNotMatchedInsertAll().execute, _NON_LAST.format("NOT_MATCHED")),
        (
            by_source.whenNotMatchedBySourceDelete().execute,
            _NON_LAST.format("NOT_MATCHED_BY_SOURCE"),
        ),
        (merge().whenMatchedUpdate(set={"n": "9"}).execute, f"{_IDENTITY}UPDATE_NOT_SUPPORTED"),
        (
            lambda: numbered.optimize().executeZOrderBy("p"),
            "DELTA_ZORDERING_ON_PARTITION_COLUMN",
        ),
        (
            lambda: numbered.optimize().executeZOrderBy("no"),
            "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST",
        ),
        (
            numbered.optimize().where("v = 1").executeCompaction,
            "DELTA_NON_PARTITION_COLUMN_REFERENCE",
        ),
        (
            clustered.optimize().where("v = 1").executeCompaction,
            "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE",
        ),
        (lambda: clustered.optimize().executeZOrderBy("v"), "DELTA_CLUSTERING_WITH_ZORDER_BY"),
        (lambda: stream.start(f"{path}-streamed"), "DELTA_UNSUPPORTED_OUTPUT_MODE"),
    ):
        with pytest.raises(AdeltaError) as caught:
            does()
        assert isinstance(caught.value, PySparkException)
        assert caught.value.getCondition() == condition
        assert str(caught.value).startswith(f"[{condition}] ")
    assert not Path(f"{path}-streamed").exists()


def _made(spark: SparkSession, path: str, *clusters: str) -> DeltaTable:
    """A table that numbers its rows, clustered so, else partitioned."""
    told = DeltaTable.create(spark).location(path)
    told = told.addColumn("n", "BIGINT", generatedAlwaysAs=IdentityGenerator())
    told = told.addColumn("p", "STRING").addColumn("v", "INT")
    return (told.clusterBy(*clusters) if clusters else told.partitionedBy("p")).execute()


def _save(rows: DataFrame, path: str) -> None:
    rows.write.format("adelta").mode("append").save(path)


def _append(spark: SparkSession, path: str, query: str) -> None:
    _save(spark.sql(query), path)
