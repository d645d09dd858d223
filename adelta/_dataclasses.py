"""`dataclass` as the standard library has it, but for the code that is compiled for every class.

The standard library writes six methods of a frozen class as text and compiles each of them: a
millisecond a class, nearly half of the time in which a fresh process loads what opens a table. Here
`__eq__`, `__hash__`, `__repr__` and the refusal to change are functions around an `attrgetter`, and
`__init__` is compiled, alone, when somebody first calls the class or looks at its signature. All
else is the standard library's work: fields, slots, matching, `replace`.

So it is for frozen classes that inherit from no dataclass, have no order and no `InitVar`; others
are made by `dataclasses` alone.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

from adelta._secrets import without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        """A dataclass, with the options of the standard library's decorator."""
        if cls is None:
            return lambda cls: dataclass(cls, **options)
        if _needs_all(cls, options):
            shows = options.pop("repr", True) and "__repr__" not in vars(cls)
            made = dataclasses.dataclass(repr=False, **options)(cls)
            if shows:
                made.__repr__ = _shown([f.name for f in dataclasses.fields(made) if f.repr])
            return made
        return _frozen(cls, **options)


__all__ = ["dataclass"]

_OF_PYTHON = {"__dict__", "__weakref__"}


def _needs_all(cls: type, options: Mapping[str, Any]) -> bool:
    """Whether a class is left to the standard library."""
    others = options.get("order") or options.get("unsafe_hash") or not options.get("frozen")
    kinds = vars(cls).get("__annotations__", {}).values()
    return bool(
        others or dataclasses.is_dataclass(cls) or any("InitVar" in str(kind) for kind in kinds)
    )


def _frozen(
    cls: type,
    *,
    frozen: bool,
    init: bool = True,
    repr: bool = True,
    eq: bool = True,
    **options: Any,
) -> type:
    written = {name: value for name, value in vars(cls).items() if name not in _OF_PYTHON}
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
    made.__dataclass_params__.frozen = frozen  # for what inherits from it
    fields = dataclasses.fields(made)
    methods = _refusals(made, {field.name for field in fields})
    if options.get("slots"):
        methods |= _pickled([field.name for field in fields])
    if init:
        methods["__init__"] = _Init(made)
    if repr:
        methods["__repr__"] = _shown([field.name for field in fields if field.repr])
    if eq:
        compared = _values_of([field.name for field in fields if field.compare])
        hashed = [f.name for f in fields if (f.compare if f.hash is None else f.hash)]
        methods["__eq__"] = _equal_by(compared)
        if written.get("__hash__") is None:  # Python says so where a class has an __eq__ alone
            made.__hash__ = _hashed_by(_values_of(hashed))
    for name, method in methods.items():
        if name not in written:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


class _Init:
    """The `__init__` of a class, until it is asked for."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        made = self._made
        made.__init__ = _compiled(made)
        return made.__init__.__get__(instance, owner)


class _New:
    """Stands in a signature for a default that is made anew for every instance."""

    def __repr__(self) -> str:
        return "<factory>"


_NEW = _New()


def _compiled(made: Any) -> Callable[..., None]:
    fields = dataclasses.fields(made)
    known: dict[str, Any] = {"_set_": object.__setattr__, "_new_": _NEW}
    lines, in_order, by_name = list[str](), list[str](), list[str]()
    for each in fields:
        name, default, factory = each.name, f"_default_{each.name}_", f"_factory_{each.name}_"
        known[default], known[factory] = each.default, each.default_factory
        made_anew = each.default_factory is not MISSING
        if each.init:
            given = f"{name}=_new_" if made_anew else name
            given = given if each.default is MISSING else f"{name}={default}"
            (by_name if each.kw_only else in_order).append(given)
            value = f"{factory}() if {name} is _new_ else {name}" if made_anew else name
        elif made_anew or each.default is not MISSING:
            value = f"{factory}()" if made_anew else default
        else:
            continue
        lines.append(f"_set_(_self_, {name!r}, {value})")
    if hasattr(made, "__post_init__"):
        lines.append("_self_.__post_init__()")
    parameters = ", ".join(["_self_", *in_order, *(["*", *by_name] if by_name else [])])
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__({parameters}):\n {body}", known)
    found: Any = known["__init__"]
    found.__qualname__ = f"{made.__qualname__}.__init__"
    found.__module__ = made.__module__
    found.__annotations__ = {each.name: each.type for each in fields if each.init}
    found.__annotations__["return"] = None
    return found  # type: ignore[no-any-return]


def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What gives the values of attributes as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda _: ()
    only = attrgetter(names[0])
    return lambda value: (only(value),)


def _refusals(made: Any, names: set[str]) -> dict[str, Any]:
    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _pickled(names: list[str]) -> dict[str, Any]:
    """How instances with slots, which cannot be set, are pickled."""

    def __getstate__(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

    def __setstate__(self: Any, state: list[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return {"__getstate__": __getstate__, "__setstate__": __setstate__}


def _shown(names: list[str]) -> Any:
    """A `__repr__` like that of the standard library, with secrets in URLs hidden."""

    def __repr__(self: Any) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return without_secrets(f"{type(self).__qualname__}({values})")

    return recursive_repr()(__repr__)


def _equal_by(values: Callable[[Any], tuple[Any, ...]]) -> Any:
    def __eq__(self: Any, other: Any) -> Any:
        if other.__class__ is self.__class__:
            return values(self) == values(other)
        return NotImplemented

    return __eq__


def _hashed_by(values: Callable[[Any], tuple[Any, ...]]) -> Any:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__
