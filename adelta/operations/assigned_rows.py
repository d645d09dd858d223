"""Rows with other values in some columns, made complete again: the second half of every update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta._dataclasses import dataclass
from adelta.kernel.schema.arrow import to_arrow_schema
from adelta.kernel.table_features import GENERATED_COLUMNS
from adelta.write.row_rules import RowRules

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from adelta.kernel.table_configuration import TableConfiguration

__all__ = ["AssignedRows"]


@dataclass(frozen=True, slots=True)
class AssignedRows:
    """What a table makes of rows in which some columns are set, as a plain value.

    Columns of `recomputed` are generated from others, and computed again.
    """

    target: pa.Schema
    recomputed: tuple[str, ...]
    rules: RowRules
    row_commit_version: str | None

    @classmethod
    def of(
        cls, configuration: TableConfiguration, assigned: Collection[str], zone: str = "UTC"
    ) -> AssignedRows:
        """What a table of this configuration makes of them, where the columns `assigned` are set.

        Times that its rules give without a zone are of `zone`.

        Raises:
            InvalidExpressionError: a rule of the table is not an expression that adelta evaluates.
        """
        schema = configuration.schema
        rules = RowRules.of(
            schema,
            configuration.metadata.configuration,
            generates=configuration.supports(GENERATED_COLUMNS),
            has_defaults=False,
            zone=zone,
            partition_by=configuration.partition_columns,
            assigns=True,
        )
        generated = tuple(field.name for field, _ in rules.generated if field.name not in assigned)
        hidden = configuration.row_id_columns
        return cls(to_arrow_schema(schema), generated, rules, None if hidden is None else hidden[1])

    def apply(self, rows: pa.RecordBatch, values: Mapping[str, pa.Array[Any]]) -> pa.RecordBatch:
        """`rows` with `values`, complete and checked, and under the ids that they had.

        Raises:
            InvariantViolationError: a row violates a constraint of the table.
            InvalidExpressionError: a generated column cannot be computed.
            SchemaMismatchError: a column cannot hold a value.
        """
        names = self.target.names
        changed = rows.select(names)
        for name, value in values.items():
            changed = changed.set_column(names.index(name), name, value)
        changed = self.rules.apply(changed.drop_columns(list(self.recomputed)), self.target)
        for name in rows.schema.names[len(names) :]:
            kept: Any = rows.column(name)
            if name == self.row_commit_version:
                kept = pa.nulls(rows.num_rows, pa.int64())
            changed = changed.append_column(name, kept)
        return changed
