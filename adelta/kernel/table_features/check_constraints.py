"""`checkConstraints`: named conditions on rows (PROTOCOL.md, "CHECK Constraints")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._removal import Removal
from adelta.kernel.table_properties import CONSTRAINT_PREFIX

if TYPE_CHECKING:
    from adelta.kernel.actions.metadata import Metadata

__all__ = ["CHECK_CONSTRAINTS"]


def _active(metadata: Metadata) -> bool:
    return any(key.lower().startswith(CONSTRAINT_PREFIX) for key in metadata.configuration)


def _obstacle(metadata: Metadata) -> str | None:
    found = [k for k in metadata.configuration if k.lower().startswith(CONSTRAINT_PREFIX)]
    if not found:
        return None
    names = ", ".join(sorted(key[len(CONSTRAINT_PREFIX) :] for key in found))
    return f"the constraints {names}, which the table has; drop them first (drop_constraint)"


CHECK_CONSTRAINTS = TableFeature(
    name="checkConstraints",
    kind=FeatureKind.WRITER,
    legacy_writer=3,
    can_write=True,
    wanted=_active,
    active=_active,
    removal=Removal(obstacle=_obstacle),
)
