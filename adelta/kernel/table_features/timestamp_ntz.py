"""`timestampNtz`: timestamps without a zone (PROTOCOL.md, "Timestamp without timezone")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import SchemaMismatchError
from adelta.kernel.schema.names import walk_fields
from adelta.kernel.schema.types import TIMESTAMP_NTZ as TYPE
from adelta.kernel.schema.widening import TYPE_CHANGES_KEY
from adelta.kernel.table_features._feature import FeatureKind, TableFeature, has_type

if TYPE_CHECKING:
    from adelta.kernel.table_features._feature import ProtocolAndMetadata

__all__ = ["TIMESTAMP_NTZ"]

_NAME = "timestampNtz"
_active = has_type(TYPE)


def _check(before: ProtocolAndMetadata | None, after: ProtocolAndMetadata) -> None:
    """Refuse to widen dates to the type in a table without the feature, as Delta Spark does.

    Adding the feature would lock out clients that do not support it, so the user has to ask for it.
    """
    if before is None or _NAME in (before.protocol.writer_features or ()):
        return
    for path, field in walk_fields(after.schema):
        changes = field.metadata.get(TYPE_CHANGES_KEY) or ()
        if any(change.get("toType") == str(TYPE) for change in changes):
            raise SchemaMismatchError(
                f"the column {'.'.join(path)!r} cannot become a {TYPE}: the table does not support "
                f"the feature {_NAME}, without which clients cannot read such columns; set the "
                f"property delta.feature.{_NAME} to 'supported' first"
            )


TIMESTAMP_NTZ = TableFeature(
    name=_NAME,
    kind=FeatureKind.READER_WRITER,
    can_write=True,
    wanted=_active,
    active=_active,
    rebasable=True,
    check=_check,
)
