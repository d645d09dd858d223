"""`appendOnly`: rows may be added, never changed or removed (PROTOCOL.md, "Append-only Tables")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_properties import Property, parse_boolean

if TYPE_CHECKING:
    from adelta.kernel.actions.metadata import Metadata

__all__ = ["APPEND_ONLY"]

_ENABLED = Property("delta.appendOnly", parse_boolean, False)


def _active(metadata: Metadata) -> bool:
    return _ENABLED.read(metadata.configuration)


APPEND_ONLY = TableFeature(
    name="appendOnly",
    kind=FeatureKind.WRITER,
    legacy_writer=2,
    properties=(_ENABLED,),
    can_write=True,
    wanted=_active,
    active=_active,
    rebasable=True,
)
