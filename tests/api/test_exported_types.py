"""What public functions give has a public name, so that a user's program can be typed."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

import pytest

import adelta
import adelta.sync

ELSEWHERE = {
    "Any", "Array", "AsyncGenerator", "DataFrame", "DataType", "Field", "Iterable",
    "AdeltaError", "Literal", "Mapping", "None", "RecordBatch", "Schema", "Self", "Sequence",
    "StoreStats", "T", "Table",
}  # fmt: skip
INTERNAL = {"ActionBatch", "ColumnName", "ObjectStore", "ScanPlan"}
"""Seams between adelta's layers, and a name for a text or a tuple of texts."""


def returned(name: str, value: Any) -> set[str]:
    """The names of the types that `value`, or what is public of it, gives."""
    if inspect.isfunction(value):
        return set(re.findall(r"\b[A-Z]\w*", str(inspect.signature(value).return_annotation)))
    if isinstance(value, property):
        assert value.fget is not None
        return returned(name, value.fget)
    if not inspect.isclass(value):
        return set()
    found = set()
    for member, inner in vars(value).items():
        if not member.startswith("_") and not inspect.isclass(inner):
            found |= returned(member, inner)
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.name.startswith("_"):
                continue
            found |= set(re.findall(r"\b[A-Z]\w*", str(field.type)))
    return found


@pytest.mark.parametrize("face", [adelta, adelta.sync], ids=["async", "blocking"])
def test_what_is_given_has_a_public_name(face: Any) -> None:
    found = {
        f"{name}: {given}"
        for name in face.__all__
        for given in returned(name, getattr(face, name))
        if given not in {*face.__all__, *ELSEWHERE, *INTERNAL}
    }
    assert not found


def test_every_stream_can_be_closed_by_the_standard_library() -> None:
    for scope in (adelta, adelta.Scan, adelta.Snapshot, adelta.Table):
        for name in getattr(scope, "__all__", vars(scope)):
            assert "AsyncIterator" not in returned(name, getattr(scope, name))
