"""The two faces, compared as a user's tools see them, not as the generator does."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import adelta
import adelta.sync
from adelta.sync._handle import Handle

BLOCKING_NAMES = {
    "aclose": "close",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
}
NOT_OFFERED = {"Table": {"store"}}
"""The seams between adelta's layers: nothing that blocking code has a use for."""


def blocking_annotation(text: str) -> str:
    text = re.sub(r"\bAsyncGenerator\[(.+), None\]", r"BlockingIterator[\1]", text)
    return re.sub(r"\bAsyncIterable\b", "Iterable", text)


def is_facade(name: str) -> bool:
    return inspect.isclass(getattr(adelta.sync, name)) and issubclass(
        getattr(adelta.sync, name), Handle
    )


FACADES = [name for name in adelta.__all__ if is_facade(name)]
FUNCTIONS = [
    name
    for name in adelta.__all__
    if inspect.isfunction(getattr(adelta, name))
    and getattr(adelta, name) is not getattr(adelta.sync, name)
]
METHODS = [
    (name, method)
    for name in FACADES
    for method, member in vars(getattr(adelta, name)).items()
    if not method.startswith("_") and inspect.isfunction(member)
]
PROPERTIES = [
    (name, attribute)
    for name in FACADES
    for attribute, member in vars(getattr(adelta, name)).items()
    if isinstance(member, property) and attribute not in NOT_OFFERED.get(name, ())
]


def test_both_faces_export_the_same_names() -> None:
    assert set(adelta.sync.__all__) == {*adelta.__all__, "BlockingIterator"}
    assert len(adelta.sync.__all__) == len(set(adelta.sync.__all__))


def test_nothing_that_waits_is_exported_by_the_blocking_face() -> None:
    for name in adelta.sync.__all__:
        value = getattr(adelta.sync, name)
        if any(getattr(each, "_is_protocol", False) for each in getattr(value, "__mro__", ())):
            continue  # an object that is handed over, whichever face it is given to
        members = [value, *(vars(value).values() if inspect.isclass(value) else ())]
        for member in members:
            assert not inspect.iscoroutinefunction(member), name
            assert not inspect.isasyncgenfunction(member), name


def test_the_faces_differ_where_something_waits() -> None:
    assert {"Table", "Snapshot", "Scan", "Transaction"} <= set(FACADES)
    assert {"open_table", "create_table", "write_table", "tail", "history"} <= set(FUNCTIONS)


@pytest.mark.parametrize("name", FACADES)
def test_a_facade_offers_the_same_members(name: str) -> None:
    def members(face: Any) -> set[str]:
        """Those of the class, and of the facades that it is derived from."""
        classes = (cls for cls in getattr(face, name).__mro__ if cls.__name__ in FACADES)
        return {member for cls in classes for member in vars(cls)}

    original, twin = members(adelta), members(adelta.sync)
    wanted = {
        BLOCKING_NAMES.get(member, member)
        for member in original
        if not member.startswith("_") or member in BLOCKING_NAMES
    }
    offered = {m for m in twin if not m.startswith("_") or m in BLOCKING_NAMES.values()}
    assert offered == wanted - NOT_OFFERED.get(name, set())


def pairs() -> list[tuple[str, Any, Any]]:
    return [
        *((name, getattr(adelta, name), getattr(adelta.sync, name)) for name in FUNCTIONS),
        *(
            (
                f"{name}.{method}",
                getattr(getattr(adelta, name), method),
                getattr(getattr(adelta.sync, name), BLOCKING_NAMES.get(method, method)),
            )
            for name, method in METHODS
        ),
    ]


@pytest.mark.parametrize(("name", "original", "twin"), pairs(), ids=[name for name, *_ in pairs()])
def test_a_callable_has_the_same_parameters_and_defaults(
    name: str, original: Any, twin: Any
) -> None:
    theirs = inspect.signature(original).parameters
    ours = inspect.signature(twin).parameters
    assert list(ours) == list(theirs)
    for parameter, mine in ours.items():
        assert mine.kind is theirs[parameter].kind
        assert mine.default == theirs[parameter].default


@pytest.mark.parametrize(("name", "original", "twin"), pairs(), ids=[name for name, *_ in pairs()])
def test_a_callable_returns_the_same_and_is_documented(name: str, original: Any, twin: Any) -> None:
    wanted = blocking_annotation(inspect.signature(original).return_annotation)
    assert inspect.signature(twin).return_annotation == wanted
    theirs, ours = inspect.getdoc(original), inspect.getdoc(twin)
    assert theirs
    assert ours
    assert len(ours.splitlines()) == len(theirs.splitlines())
    assert not re.search(r"\b(await|async|aclose|asynchronous)\b", ours)


@pytest.mark.parametrize(("name", "attribute"), PROPERTIES)
def test_a_property_has_the_same_type_and_is_documented(name: str, attribute: str) -> None:
    theirs = getattr(getattr(adelta, name), attribute)
    ours = getattr(getattr(adelta.sync, name), attribute)
    assert ours.fset is None
    assert ours.__doc__
    assert ours.fget.__annotations__ == theirs.fget.__annotations__
