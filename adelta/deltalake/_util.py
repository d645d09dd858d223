"""What the calls of deltalake have in common."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

__all__ = [
    "check_count",
    "check_flag",
    "check_text",
    "check_texts",
    "deprecate_positional_commit_args",
    "encode_partition_value",
]


def encode_partition_value(val: Any) -> str:
    """The text by which the log has a partition value (PROTOCOL.md, "Partition Values").

    Raises:
        ValueError: values of its type have none.
    """
    if isinstance(val, bool):
        return str(val).lower()
    if isinstance(val, str):
        return val
    if isinstance(val, int | float):
        return str(val)
    if isinstance(val, datetime):
        return val.isoformat(sep=" ")
    if isinstance(val, date):
        return val.isoformat()
    if isinstance(val, bytes):
        return val.decode("unicode_escape", "backslashreplace")
    raise ValueError(f"Could not encode partition value for type: {val}")


def deprecate_positional_commit_args(
    method_name: str,
    args: tuple[Any, ...],
    commit_properties: Any = None,
    post_commithook_properties: Any = None,
    legacy_order: tuple[str, ...] = ("commit_properties", "post_commithook_properties"),
) -> tuple[Any, Any]:
    """The two properties, which older programs pass by position, in `legacy_order`.

    Raises:
        TypeError: there are more of them, or one is given by name as well.
    """
    named = {
        "commit_properties": commit_properties,
        "post_commithook_properties": post_commithook_properties,
    }
    taken = positional_as_named(method_name, args, named, legacy_order, stacklevel=4)
    return taken["commit_properties"], taken["post_commithook_properties"]


def positional_as_named(
    method_name: str,
    args: tuple[Any, ...],
    named: dict[str, Any],
    order: tuple[str, ...],
    *,
    stacklevel: int = 3,
) -> dict[str, Any]:
    """The arguments `named`, those that were passed by position put in; with a warning then.

    Raises:
        TypeError: there are more of them, or one is given by name as well.
    """
    if not args:
        return named
    if len(args) > len(order) == 2:
        raise TypeError(
            f"{method_name}() takes at most {len(order)} positional commit argument(s), got "
            f"{len(args)}"
        )
    warnings.warn(
        f"Passing commit arguments positionally to {method_name}() is deprecated and will be "
        "removed in a future release. Use keyword arguments instead.",
        DeprecationWarning,
        stacklevel=stacklevel,
    )
    if len(args) > len(order):
        raise TypeError(f"{method_name}() got unexpected positional arguments")
    taken = dict(named)
    for name, value in zip(order, args, strict=False):
        if named[name] is not None:
            raise TypeError(f"{method_name}() got multiple values for {name!r}")
        taken[name] = value
    return taken


def check_text(*values: Any) -> None:
    """Refuse what is no text.

    Raises:
        TypeError: a value is none.
    """
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{_called(value)} is not an instance of 'str'")


def check_flag(*values: Any) -> None:
    """Refuse what is neither true nor false.

    Raises:
        TypeError: a value is neither.
    """
    for value in values:
        if not isinstance(value, bool):
            raise TypeError(f"{_called(value)} is not an instance of 'bool'")


def _called(value: Any) -> str:
    return "'None'" if value is None else f"'{type(value).__name__}' object"


def check_texts(mapping: Any) -> None:
    """Refuse what is no dict of texts by texts.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(mapping, Mapping):
        raise TypeError(f"{_called(mapping)} is not an instance of 'dict'")
    check_text(*mapping, *mapping.values())


def check_count(value: Any) -> None:
    """Refuse a number below 0, texts, and moments.

    Raises:
        TypeError: it is a text or a fraction.
        OverflowError: it is negative.
    """
    if isinstance(value, str | float | date):
        raise TypeError(f"'{type(value).__name__}' object cannot be interpreted as an integer")
    if isinstance(value, int) and value < 0:
        raise OverflowError("can't convert negative int to unsigned")
