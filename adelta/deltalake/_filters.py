"""Which files or rows are asked for: SQL text, or tuples whose values may be partitions' texts."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta.deltalake._arrow import arrow_type
from adelta.deltalake._sql import spark_sql
from adelta.deltalake._util import encode_partition_value
from adelta.deltalake.exceptions import DeltaError

if TYPE_CHECKING:
    from adelta.kernel.schema.types import StructType

__all__ = ["conjunctions", "encoded", "one_of", "texts_of", "typed", "where_of"]

_OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
_LISTS = ("in", "not in")


def encoded(conjunction: Any) -> list[tuple[str, str, str | list[str]]]:
    """The conditions with the texts by which the log has their values."""
    found: list[tuple[str, str, str | list[str]]] = []
    for field, op, value in conjunction:
        if isinstance(value, list | tuple | set | frozenset):
            found.append((field, op, [encode_partition_value(each) for each in value]))
        else:
            found.append((field, op, encode_partition_value(value)))
    return found


def conjunctions(filters: Any) -> list[list[tuple[str, str, str | list[str]]]] | None:
    """The filters as an OR of ANDs of conditions with texts; None where there are none.

    Raises:
        ValueError: they are neither tuples nor lists of tuples, or a list is empty.
    """
    if not filters:
        return None
    if all(isinstance(each, list) for each in filters):
        groups = filters
    elif all(isinstance(each, tuple) for each in filters):
        groups = [filters]
    else:
        raise ValueError(
            "filters must be a list of (column, op, value) tuples (a conjunction), "
            "or a list of such lists (an OR across conjunctions), not a mix of both"
        )
    if not all(groups):
        raise ValueError("empty conjunction in filters; pass no filter to match all files")
    return [encoded(group) for group in groups]


def one_of(name: str, old: Any, predicate: Any) -> Any:
    """The predicate, which older programs pass as the argument `name`; with a warning then.

    Raises:
        ValueError: both are given.
    """
    if old is None:
        return predicate
    if predicate is not None:
        raise ValueError(f"`{name}` is deprecated; pass only `file_pruning_predicate`")
    warnings.warn(
        f"`{name}` is deprecated; pass the filters to `file_pruning_predicate` instead",
        DeprecationWarning,
        stacklevel=3,
    )
    return old


def texts_of(predicate: Any) -> Any:
    """SQL as it is, tuples with the texts by which the log has their values."""
    return predicate if predicate is None or isinstance(predicate, str) else conjunctions(predicate)


def where_of(predicate: Any, schema: StructType) -> Any:
    """What `predicate` is to adelta: SQL text, or what `conjunctions` gives, held to the schema.

    Raises:
        DeltaError: a column is not there, a condition has an operator that there is not, or a value
            is none of its column's type.
    """
    if predicate is None or isinstance(predicate, str):
        return None if predicate is None else spark_sql(predicate)
    found: list[list[Any]] = []
    for group in predicate:
        alternatives: list[list[Any]] = [[]]
        for field, op, value in group:
            alternatives = [
                [*before, *after]
                for before in alternatives
                for after in _conditions(field, op, value, schema)
            ]
        found += alternatives
    return found


def _conditions(field: str, op: str, value: Any, schema: StructType) -> list[list[Any]]:
    """The condition as an OR of ANDs: the empty text stands for null, which `in` does not find."""
    column = schema.field(field)
    if column is None or column.name != field:
        raise DeltaError(
            "Data does not match the schema or partitions of the table: "
            f"Field '{field}' is not a root table field."
        )
    listed = isinstance(value, list)
    if op not in (_LISTS if listed else _OPERATORS):
        shown = str(value).replace("'", '"')
        raise DeltaError(
            f'Invalid partition filter found: ("{field}", "{op}", '
            + (f"{shown})." if listed else f'"{value}").')
        )
    if not listed:
        if value == "":
            if op not in ("=", "!="):
                raise DeltaError(
                    f'Invalid partition filter found: ("{field}", "{op}", ""): null has no order.'
                )
            return [[(field, "is" if op == "=" else "is not", None)]]
        return [[(field, op, typed(value, column.type))]]
    values = [typed(each, column.type) for each in value if each != ""]
    has_null = "" in value
    if op == "in":
        return [
            *([[(field, "in", values)]] if values or not has_null else []),
            *([[(field, "is", None)]] if has_null else []),
        ]
    return [
        [
            *([(field, "not in", values)] if values else []),
            *([(field, "is not", None)] if has_null else []),
        ]
    ]


def typed(text: str, kind: Any) -> Any:
    """The value of a type that a text stands for."""
    arrow = arrow_type(kind)
    if pa.types.is_string(arrow):
        return text
    if pa.types.is_binary(arrow):
        return text.encode()
    try:
        if pa.types.is_timestamp(arrow):
            return _moment(text, with_zone=arrow.tz is not None)
        return pa.scalar(text).cast(arrow).as_py()
    except (pa.ArrowException, ValueError) as error:
        raise DeltaError(f"Kernel error: Failed to parse value '{text}' as '{kind}'") from error


def _moment(text: str, *, with_zone: bool) -> Any:
    found = datetime.fromisoformat(text)
    if found.tzinfo is not None:
        found = found.astimezone(UTC)
        return found if with_zone else found.replace(tzinfo=None)
    return found.replace(tzinfo=UTC) if with_zone else found
