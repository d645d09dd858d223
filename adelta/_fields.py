"""Checks of the fields of values that callers make: each says what to pass instead."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Union

from adelta.errors import InvalidOptionError

__all__ = ["check_fields", "is_text"]

_NAMES: Mapping[str, object] = {
    "Callable": Callable,
    "Iterable": Iterable,
    "Mapping": Mapping,
    "Sequence": Sequence,
}
"""What modules import for annotations alone."""

_LONG = range(-(2**63), 2**63)
_known: dict[type, Mapping[str, Any]] = {}


def check_fields(value: object) -> None:
    """Refuse a dataclass's instance of which a field is of another type than it is annotated with.

    Whole numbers have 64 bits and are no truth values, fractions are finite, texts can be encoded.
    A list is taken for a tuple.

    Raises:
        InvalidOptionError: a field is.
    """
    for name, annotation in _annotations(type(value)).items():
        given = getattr(value, name)
        if not _matches(given, annotation):
            raise InvalidOptionError(
                f"{type(value).__name__} has the {name} {given!r:.100}; it must be "
                f"{_shown(annotation)}"
            )


def _annotations(kind: type) -> Mapping[str, Any]:
    found = _known.get(kind)
    if found is None:
        found = _known[kind] = typing.get_type_hints(kind, localns=dict(_NAMES))
    return found


def _matches(value: object, annotation: Any) -> bool:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        return any(_matches(value, part) for part in parts)
    if origin is Literal:
        return isinstance(value, str | int) and value in parts
    if origin is tuple:
        if not isinstance(value, tuple | list):
            return False
        if parts[-1] is Ellipsis:
            return all(_matches(each, parts[0]) for each in value)
        return len(value) == len(parts) and all(map(_matches, value, parts))
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _matches(key, parts[0]) and _matches(item, parts[1]) for key, item in value.items()
        )
    return _is_simple(value, annotation)


def _is_simple(value: object, annotation: Any) -> bool:
    if annotation is int:
        return type(value) is int and value in _LONG
    if annotation is float:
        return type(value) in (int, float) and math.isfinite(typing.cast("float", value))
    if annotation is str:
        return is_text(value)
    return isinstance(value, annotation)


def is_text(value: object) -> bool:
    """Whether it is text that UTF-8 can hold."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(annotation: Any) -> str:
    if typing.get_origin(annotation) is Literal:
        return "one of " + ", ".join(map(str, typing.get_args(annotation)))
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
