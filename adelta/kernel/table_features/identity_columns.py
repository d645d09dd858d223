"""`identityColumns`: columns that number rows (PROTOCOL.md, "Identity Columns").

A column is one by the metadata of its field. Its values are `start + k * step`, each one farther
than the high-water mark, which the field's metadata hold too and every commit that makes values
moves on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError, SchemaMismatchError
from adelta.kernel.schema.names import walk_fields
from adelta.kernel.schema.types import LONG, StructField, StructType
from adelta.kernel.table_features._feature import FeatureKind, TableFeature, has_field_metadata
from adelta.kernel.table_features.allow_column_defaults import DEFAULT_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from adelta.kernel.actions.metadata import Metadata


__all__ = [
    "IDENTITY_ADVANCED",
    "IDENTITY_COLUMNS",
    "IDENTITY_KEYS",
    "IdentityColumn",
    "check_identity_columns",
    "identities_of",
    "with_high_water_marks",
]

IDENTITY_ADVANCED: Final = "delta.identity.schemaUpdate"
"""The tag of a commit's provenance that says that its metadata only moves high-water marks."""

_START: Final = "delta.identity.start"
_STEP: Final = "delta.identity.step"
_MARK: Final = "delta.identity.highWaterMark"
_EXPLICIT: Final = "delta.identity.allowExplicitInsert"
IDENTITY_KEYS: Final = (_START, _STEP, _MARK, _EXPLICIT)
"""What the metadata of such a column's field hold."""

_OTHER_SOURCES = ("delta.generationExpression", DEFAULT_KEY)
_LEAST, _GREATEST = -(2**63), 2**63 - 1

_active = has_field_metadata(_START, _STEP)


def _only_counted(_before: Metadata, _after: Metadata) -> bool:
    """Numbers that others have given out do not concern a commit that gives out none."""
    return True


IDENTITY_COLUMNS = TableFeature(
    name="identityColumns",
    kind=FeatureKind.WRITER,
    legacy_writer=6,
    can_write=True,
    wanted=_active,
    active=_active,
    tolerates=_only_counted,
    field_metadata=(_MARK,),
)


@dataclass(frozen=True, slots=True)
class IdentityColumn:
    """How one column numbers rows; `high_water_mark` is None where no value has been made."""

    name: str
    start: int
    step: int
    high_water_mark: int | None
    allows_explicit: bool

    @property
    def next_value(self) -> int:
        """The first value that may be made.

        Example: from 1 by 3, after 7 it is 10; after a foreign 8 it is 10 too.
        """
        mark = self.high_water_mark
        if mark is None or (mark - self.start) * self.step < 0:
            return self.start
        return self.start + self.step * ((mark - self.start) // self.step + 1)

    def after(self, farthest: int) -> int | None:
        """The high-water mark where the column holds values up to `farthest`, in its own order.

        It never goes back, and is None where none of its values has been made. Delta Spark rounds
        to the next value of the column, and so does this.
        """
        mark = self.high_water_mark
        if (farthest - self.start) * self.step < 0:
            return mark
        found = self.start + self.step * -((self.start - farthest) // self.step)
        return found if mark is None or (found - mark) * self.step > 0 else mark


def identities_of(schema: StructType) -> tuple[IdentityColumn, ...]:
    """The columns of a table that number rows.

    Raises:
        InvalidTableError: the metadata of one are damaged.
    """
    return tuple(_identity(f) for f in schema if _START in f.metadata or _STEP in f.metadata)


def _identity(field: StructField) -> IdentityColumn:
    metadata = field.metadata
    start, step = _long(field, _START), _long(field, _STEP)
    if start is None or not step:
        raise InvalidTableError(
            f"the identity column {field.name[:80]!r} has the start {metadata.get(_START)!r} and "
            f"the step {metadata.get(_STEP)!r}; its metadata is damaged"
        )
    explicit = metadata.get(_EXPLICIT)
    allows = explicit is True or str(explicit).lower() == "true"
    return IdentityColumn(field.name, start, step, _long(field, _MARK), allows)


def _long(field: StructField, key: str) -> int | None:
    value: Any = field.metadata.get(key)
    if value is None:
        return None
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = _GREATEST + 1
    if isinstance(value, (bool, float)) or not _LEAST <= number <= _GREATEST:
        raise InvalidTableError(
            f"the identity column {field.name[:80]!r} has the {key} {str(value)[:80]!r}, which is "
            "no 64-bit number; its metadata is damaged"
        )
    return number


def check_identity_columns(schema: StructType, partition_columns: Iterable[str] = ()) -> None:
    """Refuse identity columns that a new table cannot have.

    Raises:
        SchemaMismatchError: one is nested, no long, a partition column, or computed as well, or its
            step is 0.
    """
    partitions = {name.lower() for name in partition_columns}
    for path, field in walk_fields(schema):
        if _START not in field.metadata and _STEP not in field.metadata:
            continue
        shown = f"the identity column {'.'.join(path)!r}"
        if len(path) > 1:
            raise SchemaMismatchError(f"{shown} is nested; only a column of the table numbers rows")
        if field.type != LONG:
            raise SchemaMismatchError(
                f"{shown} is a {field.type}, but has to be a long (int64)",
                reason="identity_column_type",
            )
        if field.metadata.get(_STEP) == 0:
            raise SchemaMismatchError(
                f"{shown} has the step 0; choose another one", reason="identity_step_zero"
            )
        if field.name.lower() in partitions:
            raise SchemaMismatchError(
                f"{shown} cannot be a partition column", reason="partition_by_identity_column"
            )
        if any(key in field.metadata for key in _OTHER_SOURCES):
            raise SchemaMismatchError(
                f"{shown} has a default or a generation expression beside; choose one of these"
            )


def with_high_water_marks(schema: StructType, marks: Mapping[str, int]) -> StructType:
    """`schema` after values up to `marks`, by column name, have been made."""
    return StructType(
        tuple(
            replace(f, metadata={**f.metadata, _MARK: marks[f.name]}) if f.name in marks else f
            for f in schema
        )
    )
