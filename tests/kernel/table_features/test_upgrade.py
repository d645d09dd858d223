"""The protocol that a change of metadata asks for."""

from __future__ import annotations

import pytest

from adelta.errors import InvalidPropertyError, UnsupportedFeatureError
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.types import LONG, TIMESTAMP_NTZ, DataType, StructField, StructType
from adelta.kernel.table_features import upgraded_protocol


def metadata(kind: DataType = LONG, **properties: str) -> Metadata:
    schema = schema_to_string(StructType((StructField("a", kind),)))
    return Metadata("id", schema, configuration={f"delta.{k}": v for k, v in properties.items()})


PLAIN, NTZ = metadata(), metadata(TIMESTAMP_NTZ)
CHECKED = metadata(**{"constraints.c": "a > 0"})
FEED = metadata(enableChangeDataFeed="true")
BASE = ("appendOnly", "invariants")


@pytest.mark.parametrize(
    ("protocol", "after", "upgraded"),
    [
        (Protocol(1, 2), PLAIN, None),
        (Protocol(1, 2), metadata(appendOnly="true"), None),
        (Protocol(1, 2), CHECKED, Protocol(1, 3)),
        (Protocol(1, 3), CHECKED, None),
        (
            Protocol(1, 2),
            FEED,
            Protocol(1, 7, None, ("appendOnly", "changeDataFeed", "invariants")),
        ),
        (Protocol(1, 4), FEED, None),
        (Protocol(1, 2), NTZ, Protocol(3, 7, ("timestampNtz",), (*BASE, "timestampNtz"))),
        (Protocol(1, 7, None, ()), CHECKED, Protocol(1, 7, None, ("checkConstraints",))),
        (
            Protocol(3, 7, ("deletionVectors",), ("deletionVectors",)),
            NTZ,
            Protocol(
                3, 7, ("deletionVectors", "timestampNtz"), ("deletionVectors", "timestampNtz")
            ),
        ),
        (
            Protocol(2, 7, None, ("columnMapping",)),
            NTZ,
            Protocol(3, 7, ("columnMapping", "timestampNtz"), ("columnMapping", "timestampNtz")),
        ),
        (
            Protocol(3, 7, ("typeWidening-preview",), ("typeWidening-preview",)),
            metadata(enableTypeWidening="true"),
            None,
        ),
    ],
)
def test_the_protocol_becomes_as_strong_as_needed_and_no_weaker(
    protocol: Protocol, after: Metadata, upgraded: Protocol | None
) -> None:
    assert upgraded_protocol(protocol, PLAIN, after) == upgraded


def test_what_the_table_asked_for_before_is_not_asked_for_again() -> None:
    protocol = Protocol(1, 7, None, ())
    before, after = metadata(appendOnly="true"), metadata(appendOnly="true", own="1")
    assert upgraded_protocol(protocol, before, after) is None


def test_a_feature_is_asked_for_by_name() -> None:
    asked = {"delta.feature.domainMetadata": "supported"}
    upgraded = upgraded_protocol(Protocol(1, 1), PLAIN, PLAIN, asked)
    assert upgraded == Protocol(1, 7, None, ("domainMetadata",))
    with pytest.raises(InvalidPropertyError, match="supported"):
        upgraded_protocol(Protocol(1, 1), PLAIN, PLAIN, {"delta.feature.domainMetadata": "no"})
    with pytest.raises(UnsupportedFeatureError, match="unheardOf"):
        upgraded_protocol(Protocol(1, 1), PLAIN, PLAIN, {"delta.feature.unheardOf": "supported"})


def test_a_protocol_is_the_same_however_its_lists_are_given() -> None:
    """Lists belong to versions (3, 7) alone, and have no order."""
    assert Protocol(3, 7, ("b", "a", "b")) == Protocol(3, 7, ("a", "b"), ())
    assert Protocol(1, 7, ("a",), ("a",)) == Protocol(1, 7, None, ("a",))
    assert Protocol(1, 2, (), ()) == Protocol(1, 2)
