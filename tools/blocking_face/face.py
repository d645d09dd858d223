"""The async face as values: what the grammar has read, and what the twins are written from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.blocking_face.source import Module, Place

__all__ = ["Facade", "Face", "Function", "Parameter", "Property", "Result", "Shape", "Use"]


@dataclass(frozen=True, slots=True)
class Use:
    """A name that a signature needs, as `module` binds it; at run time, or for types alone."""

    module: Module
    name: str
    runtime: bool


class Shape(Enum):
    """What a callable hands back."""

    VALUE = "value"
    FACADE = "facade"
    FACADE_OR_NONE = "facade or None"
    FACADES = "list of facades"
    TUPLE = "tuple of facades"
    ITERATOR = "iterator"


@dataclass(frozen=True, slots=True)
class Result:
    """What is returned: its shape, its blocking annotation, and the facade's name or the item."""

    shape: Shape
    annotation: str
    inner: str = ""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. `annotation` and `default` are blocking source text, `kind` as in inspect.

    `facade`: a handle may be passed. `named`: a mapping may be passed whose values are handles.
    `feed`: an iterable may be passed, for an async iterator.
    """

    name: str
    kind: str
    annotation: str
    default: str | None
    facade: bool
    named: bool
    feed: bool


@dataclass(frozen=True, slots=True)
class Function:
    """A function, a method, or (named ``__init__``) a public constructor."""

    name: str
    parameters: tuple[Parameter, ...]
    result: Result
    doc: str
    waits: bool
    uses: frozenset[Use]
    place: Place


@dataclass(frozen=True, slots=True)
class Property:
    """A plain property, or a public attribute that the class declares."""

    name: str
    result: Result
    doc: str
    uses: frozenset[Use]
    place: Place


@dataclass(frozen=True, slots=True)
class Facade:
    """A public async class.

    `exit_annotation`: what ``__aexit__`` returns, where ``async with`` works on it. `entered`: the
    facades that it gives then, where that is not the facade itself.
    `item`: what ``async for`` gives, where it works.
    `base`: the facade that it is derived from; what it has by that one is not said again.
    `mixin`: what its twin is besides, of those that are written by hand.
    `copies`: the class says by ``__reduce__`` how it is copied. `closes`: it has ``aclose``.
    """

    name: str
    module: Module
    doc: str
    members: tuple[Property | Function, ...]
    constructor: Function | None
    exit_annotation: str | None
    entered: Result | None
    item: str | None
    copies: bool
    closes: bool
    uses: frozenset[Use]
    place: Place
    base: str | None = None
    mixin: str | None = None

    @property
    def versioned(self) -> bool:
        """Whether the facade has a version that it can be pinned to."""
        return any(isinstance(m, Property) and m.name == "version" for m in self.members)


@dataclass(frozen=True, slots=True)
class Face:
    """The whole face: what gets a twin, in the order of export, and what is shared by both.

    The twins of what is `by_hand` are written by hand, each in a module `_<name>` of the face.
    """

    facades: tuple[Facade, ...]
    functions: tuple[tuple[Module, Function], ...]
    shared: tuple[str, ...]
    by_hand: tuple[str, ...] = ()
