"""`checkConstraints`: named conditions on rows (PROTOCOL.md, "CHECK Constraints")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_properties import CONSTRAINT_PREFIX

if TYPE_CHECKING:
    from adelta.kernel.table_state import TableState

__all__ = ["CHECK_CONSTRAINTS"]


def _active(state: TableState) -> bool:
    return any(key.lower().startswith(CONSTRAINT_PREFIX) for key in state.configuration)


CHECK_CONSTRAINTS = TableFeature(
    name="checkConstraints",
    kind=FeatureKind.WRITER,
    legacy_writer=3,
    can_write=True,
    wanted=_active,
    active=_active,
)
