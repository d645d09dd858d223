"""`changeDataFeed`: row changes are kept beside the rows (PROTOCOL.md, "Change Data Files")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adelta.errors import SchemaMismatchError
from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_properties import Property, parse_boolean

if TYPE_CHECKING:
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.table_features._feature import ProtocolAndMetadata

__all__ = ["CHANGE_DATA_DIRECTORY", "CHANGE_DATA_FEED", "CHANGE_TYPE"]

CHANGE_DATA_DIRECTORY: Final = "_change_data"
"""The directory of change data files below the table's root."""

CHANGE_TYPE: Final = "_change_type"
"""The column of these files that says what became of a row."""

_RESERVED = (CHANGE_TYPE, "_commit_version", "_commit_timestamp")

_ENABLED = Property(
    "delta.enableChangeDataFeed",
    parse_boolean,
    False,
    aliases=("delta.enableChangeDataCapture",),
)


def _active(metadata: Metadata) -> bool:
    return _ENABLED.read(metadata.configuration)


def _check(_before: ProtocolAndMetadata | None, after: ProtocolAndMetadata) -> None:
    if not _active(after.metadata):
        return
    taken = next(filter(None, (after.schema.field(name) for name in _RESERVED)), None)
    if taken is not None:
        raise SchemaMismatchError(
            f"column {taken.name!r} has a name that the change data feed gives to one of its own; "
            f"rename it, or leave {_ENABLED.key} unset"
        )


CHANGE_DATA_FEED = TableFeature(
    name="changeDataFeed",
    kind=FeatureKind.WRITER,
    legacy_writer=4,
    properties=(_ENABLED,),
    can_write=True,
    wanted=_active,
    active=_active,
    check=_check,
    rebasable=True,
)
