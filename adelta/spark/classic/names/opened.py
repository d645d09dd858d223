"""Tables that statements name: what Spark asks of one that it reads, writes or changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import DataFrame

from adelta.errors import InvalidExpressionError, InvalidUseError
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.table_features import (
    CLUSTERING,
    CLUSTERING_DOMAIN,
    TYPE_WIDENING,
    clustering_columns,
)
from adelta.operations.analyze import analyze
from adelta.operations.delete import delete
from adelta.operations.update import update
from adelta.spark.classic import jvm
from adelta.spark.classic.hook import plain_load
from adelta.spark.classic.names.alterations import alter
from adelta.spark.classic.names.answers import Answers
from adelta.spark.classic.names.columns import described_schema
from adelta.spark.classic.native.scan import OpenVersion, native_frame
from adelta.spark.classic.own_scans import scans_of
from adelta.spark.cluster.task_executor import on_cluster
from adelta.spark.exceptions import known_as_of
from adelta.spark.options.commits import session_commits
from adelta.spark.options.path_travel import read_options
from adelta.spark.options.read_write import ReadOptions, with_session_storage
from adelta.spark.options.session_settings import pads_chars, session_zone
from adelta.spark.options.writer import WriteState
from adelta.spark.rows.merge_by_spark import Computed, joined_by_spark
from adelta.spark.rows.merging import merge_rows, merge_said, rows_said
from adelta.spark.rows.own_reads import earliest_version
from adelta.spark.rows.saving import save
from adelta.spark.translate.identifiers import FORMAT, identifier_parts, quoted
from adelta.spark.translate.zones import condition_in, value_in
from adelta.sql.execute.partitions import shown_partitions
from adelta.sync._portal import call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pyspark.sql import SparkSession

    from adelta.operations.merge.metrics import MergeMetrics
    from adelta.snapshot import Snapshot
    from adelta.spark.classic.names.answers import SessionOf
    from adelta.spark.rows.merging import NamedMerge
    from adelta.table import Table

__all__ = ["OpenedTable"]

Done = TypeVar("Done")

_TIME_TRAVEL = ("versionasof", "timestampasof")


class OpenedTable(Answers):
    """One version of a table, and the table. Java holds it for as long as a plan has the name."""

    def __init__(
        self,
        session_of: SessionOf,
        spark: SparkSession,
        options: Mapping[str, str],
        for_changes: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        """`options` are those of a read, and `for_changes` gives those of a write."""
        self._session_of = session_of
        self._for_changes = for_changes
        self._asked = with_session_storage(spark.conf.getAll, options)
        self._options = read_options({"timeZone": session_zone(spark), **self._asked})
        self._version = OpenVersion(self._options)

    def answer_describe(self) -> str:
        """What Spark knows of the table, as JSON."""
        snapshot = self._version.snapshot
        metadata, protocol = snapshot.metadata, snapshot.protocol
        properties = dict(metadata.configuration)
        properties["delta.minReaderVersion"] = str(protocol.min_reader_version)
        properties["delta.minWriterVersion"] = str(protocol.min_writer_version)
        for feature in sorted(
            {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
        ):
            properties[f"delta.feature.{feature}"] = "supported"
        properties["location"] = self._options.uri
        if metadata.description:
            properties["comment"] = metadata.description
        return json.dumps(
            {
                "schema": json.dumps(described_schema(snapshot.delta_schema)),
                "partitions": list(snapshot.partition_columns),
                "clusters": _clusters(snapshot),
                "properties": properties,
                "version": str(snapshot.version),
                "widens": snapshot._configuration.uses(TYPE_WIDENING),
            }
        )

    def answer_plan(self, session: Any, options: str) -> Any:
        """Spark's plan of a read with a reader's options."""
        spark = self._session_of(session)
        jvm.activate(spark)
        version = self._version.snapshot.version
        given = {k: v for k, v in json.loads(options).items() if k.lower() not in _TIME_TRAVEL}
        asked = {
            "timeZone": session_zone(spark),
            **{k: v for k, v in self._asked.items() if k.lower() not in _TIME_TRAVEL},
            **given,
            "path": self._options.uri,
            "versionAsOf": str(version),
        }
        if not self._options.travels:
            asked["isLatest"] = "true"
        if self._options.where is not None:
            asked["where"] = self._options.where
        wanted = ReadOptions.parse(asked)
        found = native_frame(spark, wanted, self._version) if wanted.native_scan else None
        if found is None:
            reader = spark.read.format(FORMAT).options(**asked)
            found = plain_load(reader)
        return jvm.analyzed(found)

    def answer_made_of(self, session: Any, rows: Any) -> str | None:
        """The version of the table that the rows of a plan are made of; null if of none."""
        found = earliest_version(scans_of(self._session_of(session), rows), self._to_change())
        return None if found is None else str(found)

    def answer_insert(self, session: Any, rows: Any, options: str, overwrites: bool) -> None:
        """Write rows, whose columns Spark has fitted to the table's."""
        spark = self._session_of(session)
        jvm.activate(spark)
        given = {**json.loads(options), "path": self._to_change().uri}
        if self._for_changes is not None:
            given |= self._for_changes()
        mode = "Overwrite" if overwrites else "Append"
        told = WriteState(FORMAT, mode, given, None, None, buckets=False)
        save(DataFrame(rows, spark), told)

    def answer_evaluates(self, text: str) -> bool:
        """Whether adelta computes an expression, as far as it is seen without the columns."""
        try:
            parse_expression(text)
        except InvalidExpressionError:
            return False
        return True

    def answer_delete(self, session: Any, said: str, rows: Any) -> str:
        """How many rows were deleted; null where that is not known."""
        spark, asked = self._session_of(session), json.loads(said)
        if rows is not None:
            merge = rows_said(spark, "delete", asked, pads=pads_chars(spark))
            done = self._merged(spark, merge, DataFrame(rows, spark), asked["made_of"])
            return _counted(done.num_target_rows_deleted)
        zone, schema = session_zone(spark), self._version.snapshot.delta_schema
        pads = pads_chars(spark)
        where = asked.get("where")
        everything = where is None or where == "true"
        condition = None if everything else condition_in(zone, where, schema, pads=pads)
        deleted = self._changed(spark, lambda table: delete(table, condition))
        return _counted(deleted.num_deleted_rows)

    def answer_update(self, session: Any, said: str, rows: Any) -> str:
        """How many rows were updated."""
        spark, asked = self._session_of(session), json.loads(said)
        if rows is not None:
            merge = rows_said(spark, "update", asked, pads=pads_chars(spark))
            done = self._merged(spark, merge, DataFrame(rows, spark), asked["made_of"])
            return _counted(done.num_target_rows_updated)
        zone, schema = session_zone(spark), self._version.snapshot.delta_schema
        pads = pads_chars(spark)
        texts = {
            quoted(identifier_parts(column)): value_in(zone, text, schema, pads=pads)
            for column, text in asked["values"]
        }
        where = asked.get("where")
        condition = None if where is None else condition_in(zone, where, schema, pads=pads)
        updated = self._changed(spark, lambda table: update(table, texts, condition, zone=zone))
        return _counted(updated.num_updated_rows)

    @known_as_of("merge")
    def answer_merge(self, session: Any, said: str, rows: Any, joined: Any) -> str:
        """How many rows were changed, and of these updated, deleted and inserted.

        What Spark computes of the table's rows is `joined`.
        """
        spark, asked = self._session_of(session), json.loads(said)
        merge, source = merge_said(spark, asked), DataFrame(rows, spark)
        version = self.answer_made_of(session, jvm.analyzed(source))
        if joined is not None:
            target, on, of_pairs, of_others = joined
            computed = Computed(
                jvm.column_of(on),
                {name: jvm.column_of(of_pairs[name]) for name in of_pairs},
                {name: jvm.column_of(of_others[name]) for name in of_others},
                asked["texts"],
            )
            jvm.activate(spark)
            target = DataFrame(target, spark)
            schema = self._version.snapshot.delta_schema
            merge, source = joined_by_spark(target, source, merge.request, computed, schema)
        done = self._merged(spark, merge, source, version)
        updated, deleted = done.num_target_rows_updated, done.num_target_rows_deleted
        inserted = done.num_target_rows_inserted
        return _counted(updated + deleted + inserted, updated, deleted, inserted)

    def _merged(
        self, spark: SparkSession, merge: NamedMerge, source: DataFrame, made_of: str | None
    ) -> MergeMetrics:
        """Merge rows, which may be `made_of` a version of the table's own."""
        jvm.activate(spark)
        version = self._version.snapshot.version
        if made_of is not None:
            version = min(version, int(made_of))
        to, own = self._to_change(), made_of is not None
        return merge_rows(
            spark, to.uri, version, merge, source, to.storage_options, to.catalog, made_of_it=own
        )

    def _to_change(self) -> ReadOptions:
        """How the table is opened to be changed.

        Raises:
            InvalidUseError: what was opened is an earlier version, or a part of the table.
        """
        if self._options.where is not None:
            raise InvalidUseError(
                f"a part of {self._options.uri} was named, by a partition in its path, and only "
                "the table can be changed: name the table alone, and filter by its columns"
            )
        if self._options.version is not None or self._options.timestamp is not None:
            raise InvalidUseError(
                f"an earlier version of {self._options.uri} was named, by the end of its path or "
                "by VERSION AS OF, and only the latest one can be changed: name the table alone"
            )
        return (
            self._options if self._for_changes is None else ReadOptions.parse(self._for_changes())
        )

    def _changed(self, spark: SparkSession, operation: Callable[[Table], Awaitable[Done]]) -> Done:
        """What an operation has done to the table."""
        to = self._to_change()
        return on_cluster(spark, to.uri, operation, to.storage_options, to.catalog)

    def answer_constrain(self, session: Any, constraint: str) -> None:
        """Add a constraint, which all rows that are there have to satisfy."""
        self._altered(session, [{"kind": "add constraint", **json.loads(constraint)}])

    def answer_alter(self, session: Any, changes: str) -> None:
        """Change the table."""
        self._altered(session, json.loads(changes))

    def _altered(self, session: Any, changes: list[dict[str, Any]]) -> None:
        spark, to = self._session_of(session), self._to_change()
        zone, commits = session_zone(spark), session_commits(spark)
        call(alter, to.uri, changes, zone, to.storage_options, to.catalog, commits=commits)

    def answer_analyze(self, session: Any, columns: str) -> None:
        """Compute statistics for files that lack them: of some columns, or of the table's own."""
        found, spark = json.loads(columns), self._session_of(session)
        self._changed(spark, lambda table: analyze(table, columns=found))

    def answer_partitions(self, _session: Any, spec: str) -> str:
        """The partitions that have files, as Spark shows them, as JSON."""
        found = call(shown_partitions, self._version.snapshot, json.loads(spec))
        return json.dumps({"rows": [[name] for name in found]})


def _counted(*counts: int | None) -> str:
    return json.dumps({"rows": [counts]})


def _clusters(snapshot: Snapshot) -> list[str]:
    """The columns that the table is clustered by."""
    if not snapshot._configuration.supports(CLUSTERING):
        return []
    domains = call(snapshot.domain_metadata)
    found = clustering_columns(domains.get(CLUSTERING_DOMAIN), snapshot.metadata)
    return [quoted(path) for path in found]
