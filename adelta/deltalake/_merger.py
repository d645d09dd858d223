"""TableMerger: MERGE under deltalake's names."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from adelta import sync
from adelta._dataclasses import dataclass
from adelta.deltalake._arrow import arrow_type
from adelta.deltalake._sql import cast_to, plain_name, spark_sql, unaliased
from adelta.deltalake._util import check_flag, check_text, check_texts
from adelta.deltalake.exceptions import DeltaError, raises_as_deltalake
from adelta.deltalake.writer.data import CastStream, delta_schema, reader_of
from adelta.deltalake.writer.options import data_file_options
from adelta.kernel.expressions.sql import quote_name

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta import CommitOptions
    from adelta.deltalake._raw import RawDeltaTable
    from adelta.deltalake.writer.properties import WriterProperties
    from adelta.kernel.schema.types import DataType
    from adelta.sync import Merge

__all__ = ["PyMergeBuilder", "TableMerger", "merge_builder"]


@dataclass
class PyMergeBuilder:
    """What a merge is to do: its source, its condition, and its clauses in their order."""

    source: pa.RecordBatchReader
    arrow_schema: pa.Schema
    predicate: str
    source_alias: str | None
    target_alias: str | None
    merge_schema: bool
    fails_on_casts: bool
    properties: WriterProperties | None
    options: CommitOptions
    clauses: list[tuple[str, dict[str, str] | None, str | None]] = field(default_factory=list)
    is_executed: bool = False

    def _add(self, clause: str, updates: dict[str, str] | None, predicate: str | None) -> None:
        """Add a clause.

        Raises:
            TypeError: what is to be set, or the predicate, are no texts.
        """
        if not clause.endswith("_delete"):
            check_texts(updates)
        if predicate is not None:
            check_text(predicate)
        self.clauses.append((clause, updates, predicate))

    def when_matched_update(self, updates: dict[str, str], predicate: str | None) -> None:
        """Add a clause."""
        self._add("when_matched_update", updates, predicate)

    def when_matched_delete(self, predicate: str | None) -> None:
        """Add a clause."""
        self._add("when_matched_delete", None, predicate)

    def when_not_matched_insert(self, updates: dict[str, str], predicate: str | None) -> None:
        """Add a clause."""
        self._add("when_not_matched_insert", updates, predicate)

    def when_not_matched_by_source_update(
        self, updates: dict[str, str], predicate: str | None
    ) -> None:
        """Add a clause."""
        self._add("when_not_matched_by_source_update", updates, predicate)

    def when_not_matched_by_source_delete(self, predicate: str | None) -> None:
        """Add a clause."""
        self._add("when_not_matched_by_source_delete", None, predicate)


def merge_builder(
    source: Any,
    predicate: str,
    source_alias: str | None,
    target_alias: str | None,
    merge_schema: bool,
    fails_on_casts: bool,
    properties: WriterProperties | None,
    options: CommitOptions,
) -> PyMergeBuilder:
    """A merge without clauses.

    Raises:
        ValueError: the source exports no Arrow data.
        TypeError: the predicate is no text.
    """
    check_text(predicate, *(each for each in (source_alias, target_alias) if each is not None))
    check_flag(merge_schema)
    reader = reader_of(source, one=True)
    return PyMergeBuilder(
        reader,
        delta_schema(reader.schema),
        predicate,
        source_alias,
        target_alias,
        merge_schema,
        fails_on_casts,
        properties,
        options,
    )


class TableMerger:
    """A merge, to which clauses are added before it is executed."""

    def __init__(self, builder: PyMergeBuilder, table: RawDeltaTable) -> None:
        self._builder = builder
        self._table = table

    def when_matched_update(
        self, updates: dict[str, str], predicate: str | None = None
    ) -> TableMerger:
        """Set columns of rows that match to SQL expressions, where the predicate is true."""
        self._builder.when_matched_update(updates, predicate)
        return self

    def when_matched_update_all(
        self, predicate: str | None = None, except_cols: list[str] | None = None
    ) -> TableMerger:
        """Set the columns that the source has, but for `except_cols`, of rows that match."""
        self._builder.when_matched_update(self._all(except_cols), predicate)
        return self

    def when_matched_delete(self, predicate: str | None = None) -> TableMerger:
        """Delete rows that match, where the predicate is true."""
        self._builder.when_matched_delete(predicate)
        return self

    def when_not_matched_insert(
        self, updates: dict[str, str], predicate: str | None = None
    ) -> TableMerger:
        """Insert source rows that match none, with these expressions for columns."""
        self._builder.when_not_matched_insert(updates, predicate)
        return self

    def when_not_matched_insert_all(
        self, predicate: str | None = None, except_cols: list[str] | None = None
    ) -> TableMerger:
        """Insert source rows that match none, with all their columns but `except_cols`."""
        self._builder.when_not_matched_insert(self._all(except_cols), predicate)
        return self

    def when_not_matched_by_source_update(
        self, updates: dict[str, str], predicate: str | None = None
    ) -> TableMerger:
        """Set columns of rows of the table that no source row matches."""
        self._builder.when_not_matched_by_source_update(updates, predicate)
        return self

    def when_not_matched_by_source_delete(self, predicate: str | None = None) -> TableMerger:
        """Delete rows of the table that no source row matches."""
        self._builder.when_not_matched_by_source_delete(predicate)
        return self

    def _all(self, except_cols: list[str] | None) -> dict[str, str]:
        """The columns that both sides have; where schemas are merged, all that the source has."""
        builder, kind = self._builder, self._table.snapshot.delta_schema
        side = "" if builder.source_alias is None else f"{quote_name(builder.source_alias)}."
        return {
            quote_name(name): f"{side}{quote_name(name)}"
            for name in builder.arrow_schema.names
            if name not in (except_cols or ())
            and (builder.merge_schema or kind.field(name) is not None)
        }

    @raises_as_deltalake
    def execute(self) -> dict[str, Any]:
        """Carry it out; what it did.

        Raises:
            DeltaError: it has been carried out before; or it fails.
        """
        builder, table = self._builder, self._table
        if builder.is_executed:
            raise DeltaError(
                "this merge has been executed, and its source is read: call DeltaTable.merge again"
            )
        builder.is_executed = True
        columns = table.snapshot.delta_schema.names
        if not builder.clauses:
            num_rows = sum(batch.num_rows for batch in builder.source)
            return {**dict.fromkeys(_METRICS, 0), "num_source_rows": num_rows}
        source = CastStream(builder.source, builder.arrow_schema)
        merge: Merge = sync.merge(
            table.committing(builder.options),
            source,
            spark_sql(builder.predicate),
            source_alias=builder.source_alias or "source",
            target_alias=builder.target_alias or "target",
            schema_mode="merge" if builder.merge_schema else None,
            data_files=data_file_options(builder.properties, list(columns)),
        )
        for verb, updates, predicate in builder.clauses:
            told = [] if updates is None else [self._set(updates)]
            condition = None if predicate is None else spark_sql(predicate)
            merge = getattr(merge, verb)(*told, condition)
        with source.told():
            done = merge.execute()
        table.update_incremental()
        looked_at = done.num_target_files_after_skipping
        live = done.num_target_files_before_skipping
        return {name: getattr(done, name, 0) for name in _METRICS} | {
            "num_target_files_scanned": looked_at,
            "num_target_files_skipped_during_scan": 0 if live is None else live - looked_at,
        }

    def _set(self, updates: dict[str, str]) -> dict[str, str]:
        """The values in Spark's words, by the names of columns as the table has them."""
        builder, kind = self._builder, self._table.snapshot.delta_schema
        found: dict[str, str] = {}
        for key, value in updates.items():
            name = plain_name(unaliased(key.strip(), builder.target_alias))
            column = kind.field(name)
            text = spark_sql(value)
            if column is not None and not self._is_of(value, column.type):
                text = cast_to(text, column.type, fails=builder.fails_on_casts)
            found[quote_name(name) if column is None else quote_name(column.name)] = text
        return found

    def _is_of(self, value: str, kind: DataType) -> bool:
        """Whether the expression is a column of either side that is of a type."""
        builder, text = self._builder, value.strip()
        of_target = unaliased(text, builder.target_alias)
        of_source = plain_name(unaliased(text, builder.source_alias))
        if of_target == text and of_source in builder.arrow_schema.names:
            return bool(builder.arrow_schema.field(of_source).type == arrow_type(kind))
        own = self._table.snapshot.delta_schema.field(plain_name(of_target))
        return own is not None and own.type == kind


_METRICS = (
    "num_source_rows",
    "num_target_rows_inserted",
    "num_target_rows_updated",
    "num_target_rows_deleted",
    "num_target_rows_copied",
    "num_output_rows",
    "num_target_files_scanned",
    "num_target_files_skipped_during_scan",
    "num_target_files_added",
    "num_target_files_removed",
    "execution_time_ms",
    "scan_time_ms",
    "rewrite_time_ms",
)
