"""Checks of what callers pass: each says what to pass instead, before anything is done.

`checked` has a public function check its arguments by its own annotations, so that none is left out
by forgetting it: texts, flags, numbers, lists and mappings of texts, addresses.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import wraps
from typing import Any, TypeVar, cast

import orjson

from adelta._fields import is_text
from adelta._telemetry import is_observed, operation
from adelta.errors import InvalidOptionError

__all__ = [
    "address",
    "check_choice",
    "check_count",
    "check_flag",
    "check_json_object",
    "check_long",
    "check_mapping",
    "check_names",
    "check_optional_text",
    "check_seconds",
    "check_text",
    "checked",
]

F = TypeVar("F", bound=Callable[..., Any])

_LONG = range(-(2**63), 2**63)
_LONGEST = 100 * 366 * 24 * 3600.0


def address(uri: object) -> str:
    """The address of a table as text; a path of this machine is taken too.

    Raises:
        InvalidOptionError: it is neither.
    """
    if isinstance(uri, os.PathLike):
        uri = os.fspath(uri)
    if isinstance(uri, bytes):
        uri = os.fsdecode(uri)
    if not isinstance(uri, str) or not uri or "\x00" in uri or not is_text(uri):
        raise InvalidOptionError(
            f"{_shown(uri)} is no address of a table; pass a local path or a URI, such as "
            "'lake/sales' or 's3://bucket/sales'"
        )
    return uri


def check_text(name: str, value: object) -> str:
    """The argument `name`, which has to be a text that UTF-8 can hold.

    Raises:
        InvalidOptionError: it is none.
    """
    if not isinstance(value, str):
        raise InvalidOptionError(f"{name} is {_shown(value)}; pass a text")
    if not is_text(value):
        raise InvalidOptionError(
            f"{name} is {_shown(value)}, which holds half a character; pass text that can be "
            "stored as UTF-8"
        )
    return value


def check_optional_text(name: str, value: object) -> str | None:
    """The argument `name`, which has to be a text or None.

    Raises:
        InvalidOptionError: it is neither.
    """
    return None if value is None else check_text(name, value)


def check_long(name: str, value: object) -> int:
    """The argument `name`, which has to be a whole number of 64 bits.

    Raises:
        InvalidOptionError: it is none.
    """
    if type(value) is not int or value not in _LONG:
        raise InvalidOptionError(f"{name} is {_shown(value)}; pass a whole number of 64 bits")
    return value


def check_count(name: str, value: object, *, least: int = 0, optional: bool = True) -> int | None:
    """The argument `name`, which has to be a whole number from `least` up, or None if `optional`.

    Raises:
        InvalidOptionError: it is neither.
    """
    if value is None and optional:
        return None
    if type(value) is not int or not least <= value < 2**63:
        or_none = ", or None" if optional else ""
        raise InvalidOptionError(
            f"{name} is {_shown(value)}; pass a whole number from {least} up{or_none}"
        )
    return value


def check_seconds(name: str, value: object) -> float:
    """The argument `name`, which has to be a number of seconds that is not negative.

    Raises:
        InvalidOptionError: it is none.
    """
    if type(value) not in (int, float) or not 0 <= value <= _LONGEST:  # type: ignore[operator]
        raise InvalidOptionError(
            f"{name} is {_shown(value)}; pass a number of seconds, a hundred years at the most"
        )
    return value  # type: ignore[return-value]


def check_flag(name: str, value: object) -> bool:
    """The argument `name`, which has to be true or false.

    Raises:
        InvalidOptionError: it is neither.
    """
    if not isinstance(value, bool):
        raise InvalidOptionError(f"{name} is {_shown(value)}; pass True or False")
    return value


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Refuse an argument that is not one of `choices`.

    Raises:
        InvalidOptionError: it is not.
    """
    known = list(choices)
    if value not in known:
        raise InvalidOptionError(
            f"there is no {name} {value!r:.100}; choose one of {', '.join(map(repr, known))}"
        )


def check_names(name: str, value: object) -> tuple[str, ...]:
    """The argument `name`, which has to be a list of texts, not one text.

    Raises:
        InvalidOptionError: it is something else.
    """
    if isinstance(value, str):
        raise InvalidOptionError(f"{name} is the text {value!r}; pass a list, such as [{value!r}]")
    if not isinstance(value, Iterable) or isinstance(value, bytes | Mapping):
        raise InvalidOptionError(f"{name} is {_shown(value)}; pass a list of texts")
    return tuple(check_text(f"{name}[{at}]", each) for at, each in enumerate(value))


def _check_versions(name: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        raise InvalidOptionError(f"{name} is {_shown(value)}; pass a list of versions")
    return tuple(check_long(f"{name}[{at}]", each) for at, each in enumerate(value))


def check_mapping(name: str, value: object) -> dict[str, str]:
    """The argument `name`, which has to be a mapping of texts to texts, or None for an empty one.

    Truth values and numbers are taken for their texts: ``true``, ``10``.

    Raises:
        InvalidOptionError: it is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidOptionError(f"{name} is {_shown(value)}; pass a dict of texts")
    texts = {
        key: str(each).lower() if isinstance(each, bool | int | float) else each
        for key, each in value.items()
    }
    for key, each in texts.items():
        check_text(f"a key of {name}", key)
        check_text(f"{name}[{key!r}]", each)
    return texts


def check_pair(name: str, value: object) -> tuple[str, int]:
    """The argument `name`, which has to be an application's id and its version.

    Raises:
        InvalidOptionError: it is something else.
    """
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InvalidOptionError(
            f"{name} is {_shown(value)}; pass an application's id and its version, such as "
            "('load', 7)"
        )
    app_id, version = value
    return check_text(f"the application of {name}", app_id), check_long(
        f"the version of {name}", version
    )


def _check_int(name: str, value: object) -> int:
    return check_long(name, value)


def _check_duration(name: str, value: object) -> timedelta:
    if not isinstance(value, timedelta):
        raise InvalidOptionError(
            f"{name} is {_shown(value)}; pass a datetime.timedelta, such as timedelta(days=7)"
        )
    return value


def _check_address(_name: str, value: object) -> object:
    return address(value) if isinstance(value, str | bytes | os.PathLike) else value


def _optional(check: Callable[[str, Any], object]) -> Callable[[str, object], object]:
    return lambda name, value: None if value is None else check(name, value)


def _required_mapping(name: str, value: object) -> dict[str, str]:
    if value is None:
        raise InvalidOptionError(f"{name} is None; pass a dict of texts")
    return check_mapping(name, value)


_BY_ANNOTATION: Mapping[str, Callable[[str, Any], object]] = {
    "str": check_text,
    "bool": check_flag,
    "int": _check_int,
    "float": check_seconds,
    "Iterable[int]": _check_versions,
    "Iterable[str]": check_names,
    "Sequence[str]": check_names,
    "Mapping[str, str]": _required_mapping,
    "tuple[str, int]": check_pair,
    "timedelta": _check_duration,
    "IsolationName": check_text,
    "TableOrAddress": _check_address,
    "str | os.PathLike[str]": lambda _name, value: address(value),
}
"""How an argument is checked, by the text of its annotation."""

_TABLES = ("Table", "TableOrAddress", "str | os.PathLike[str]")

_BY_THE_FUNCTION = frozenset(
    {
        "AllowedRoots",
        "ArrowSchema | StructType | str",
        "CatalogClient",
        "CommitOptions",
        "Data",
        "DataFileOptions",
        "DataType | pa.DataType | str",
        "FolderNames",
        "Literal['error', 'ignore']",
        "Literal['merge']",
        "Mapping[str, MergeValue]",
        "Mapping[str, SetValue]",
        "MergeSource",
        "NamedTables",
        "OnProgress",
        "PartitionOverwrite",
        "SchemaMode",
        "SourceFormat",
        "Table",
        "VacuumMode",
        "Where",
        "WriteMode",
        "WriterOptions",
        "datetime | str",
        "int | Position | Literal['latest']",
        "int | datetime | str | Position",
        "str | Iterable[str]",
    }
)
"""The annotations of arguments that functions check themselves, by parsing them or by kind."""


def checked(function: F) -> F:
    """The function, whose arguments are checked by their annotations when it is called.

    Iterables of texts are handed on as tuples, paths as texts.

    Raises:
        TypeError: nobody has said how an argument is to be checked.
    """
    signature = inspect.signature(function)
    checks = {
        name: check
        for name, parameter in signature.parameters.items()
        if (check := _check_of(name, str(parameter.annotation))) is not None
    }

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        for name, check in checks.items():
            if name in bound.arguments:
                bound.arguments[name] = check(name, bound.arguments[name])
        return function(*bound.args, **bound.kwargs)

    if inspect.iscoroutinefunction(function):
        first = next(iter(signature.parameters))
        names_table = str(signature.parameters[first].annotation) in _TABLES

        @wraps(function)
        async def waits(*args: Any, **kwargs: Any) -> Any:
            if not is_observed():
                return await call(*args, **kwargs)
            table = (args[0] if args else kwargs.get(first)) if names_table else None
            with operation(function.__name__, table) as told:
                done = await call(*args, **kwargs)
                told.tell(version=getattr(done, "version", None))
                return done

        return cast("F", waits)

    @wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    return cast("F", plain)


def _check_of(name: str, annotation: str) -> Callable[[str, Any], object] | None:
    if name == "storage_options":
        return _optional(_required_mapping)
    kind = annotation.removesuffix(" | None")
    if kind in _BY_THE_FUNCTION:
        return None
    check = _BY_ANNOTATION.get(kind)
    if check is None:
        raise TypeError(f"nobody has said how {name}: {annotation} is to be checked")
    return check if kind == annotation else _optional(check)


def _shown(value: Any) -> str:
    return f"{value!r:.100} ({type(value).__name__})"


def check_json_object(name: str, value: object) -> Mapping[str, object]:
    """What an entry of the history can hold."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidOptionError(f"{name} is {value!r:.100}; pass a dict")
    for key in value:
        check_text(f"a key of {name}", key)
    try:
        orjson.dumps(dict(value))
    except (TypeError, ValueError) as error:
        raise InvalidOptionError(
            f"{name} holds what JSON cannot ({error}); pass texts, numbers, lists and dicts"
        ) from error
    return value
