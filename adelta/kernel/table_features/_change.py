"""What a change of metadata becomes before it is committed, and which changes are refused.

Some of what metadata say is Delta's to fill in: ids of columns, names of hidden ones. Each feature
knows its own; here they are asked in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features._registry import FEATURES, is_supported
from adelta.kernel.table_features.catalog_managed import (
    CATALOG_MANAGED,
    with_catalog_properties,
)
from adelta.kernel.table_features.column_mapping import with_mapped_columns
from adelta.kernel.table_features.iceberg_compat import has_nested_ids, with_iceberg_properties
from adelta.kernel.table_features.iceberg_writer_compat import (
    calls_columns_by_id,
    with_iceberg_writer_properties,
)
from adelta.kernel.table_features.row_tracking import ROW_TRACKING, with_row_id_columns
from adelta.kernel.table_state import TableState

if TYPE_CHECKING:
    from collections.abc import Callable

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol

__all__ = ["check_change", "completed_metadata"]


def completed_metadata(
    before: Metadata | None, after: Metadata, protocol: Protocol, unique: Callable[[], str]
) -> Metadata:
    """`after` with what the features of its table add to it; `before` is None for a new table.

    `protocol` is the one after the change, and `unique` makes up parts of names.

    Raises:
        InvalidPropertyError: properties contradict each other.
        SchemaMismatchError: the schema cannot change like this.
    """
    if before is None:
        after = with_iceberg_writer_properties(after)
    after = with_iceberg_properties(before, after)
    if before is None and is_supported(CATALOG_MANAGED, protocol):
        after = with_catalog_properties(after)
    nested = has_nested_ids(TableState(protocol, after))
    numbered = calls_columns_by_id(after)
    after = with_mapped_columns(before, after, unique, nested=nested, numbered=numbered)
    if is_supported(ROW_TRACKING, protocol):
        after = with_row_id_columns(TableState(protocol, after), unique())
    return after


def check_change(before: TableState | None, after: TableState) -> None:
    """Refuse a change that a feature of the table does not allow; `before` is None for a new table.

    Raises:
        InvalidPropertyError: a property cannot have its value, or not together with another one.
        SchemaMismatchError: the schema cannot be as it is, or cannot change like this.
        InvalidTableError: the ids or the physical names of columns are wrong.
    """
    for feature in FEATURES:
        if is_supported(feature, after.protocol):
            feature.check(before, after)
