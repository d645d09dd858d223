"""`allowColumnDefaults`: values for omitted columns (PROTOCOL.md, "Default Columns")."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING

from adelta.errors import InvalidExpressionError
from adelta.kernel.schema import types as t
from adelta.kernel.table_features._feature import FeatureKind, TableFeature, has_field_metadata

if TYPE_CHECKING:
    from adelta.kernel.schema.types import DataType, StructField

__all__ = ["ALLOW_COLUMN_DEFAULTS", "DEFAULT_KEY", "has_literal_default"]

DEFAULT_KEY = "CURRENT_DEFAULT"
"""The key of a field's metadata under which its default value stands, as SQL."""

_WHOLE = (t.BYTE, t.SHORT, t.INTEGER, t.LONG)
_CLOCK_TEXT = len("2020-01-01 00:00:00")

_active = has_field_metadata(DEFAULT_KEY)

ALLOW_COLUMN_DEFAULTS = TableFeature(
    name="allowColumnDefaults",
    kind=FeatureKind.WRITER,
    can_write=True,
    wanted=_active,
    active=_active,
)


def has_literal_default(field: StructField) -> bool:
    """Whether a field's default is a value written out, in the form that its type has in Iceberg.

    Numbers and booleans stand bare, texts, dates and times in quotes: what Delta Spark and Delta
    Kernel take for a literal as well.

    Example: ``'2020-01-01'`` for a date is one, ``DATE '2020-01-01'`` and ``NULL`` are not.
    """
    text = str(field.metadata[DEFAULT_KEY])
    if text.rstrip().endswith(")"):  # a constant by the call of a function, such as pi()
        return False
    from adelta.kernel.expressions.nodes import Literal
    from adelta.kernel.expressions.parse import parse_expression

    try:
        node = parse_expression(text)
    except InvalidExpressionError:
        return False
    return isinstance(node, Literal) and _fits(node.value, field.type)


def _fits(value: object, data_type: DataType) -> bool:
    if isinstance(value, bool) or data_type == t.BOOLEAN:
        return isinstance(value, bool) and data_type == t.BOOLEAN
    if data_type in _WHOLE:
        return isinstance(value, int)
    if data_type in (t.FLOAT, t.DOUBLE) or isinstance(data_type, t.DecimalType):
        from decimal import Decimal

        return isinstance(value, (int, float, Decimal))
    if data_type == t.BINARY:
        return isinstance(value, (str, bytes))
    if not isinstance(value, str):
        return False
    if data_type == t.DATE:
        return _is_date(value)
    if data_type in (t.TIMESTAMP, t.TIMESTAMP_NTZ):
        return _is_time(value)
    return data_type == t.STRING


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return len(text) >= _CLOCK_TEXT
