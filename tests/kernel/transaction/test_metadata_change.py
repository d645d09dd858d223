"""Which changes of metadata leave commits that were prepared before them as they were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.types import LONG, STRING, StructField, StructType
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.transaction.metadata_change import metadata_may_change

COLUMNS = StructType((StructField("p", STRING), StructField("v", LONG)))
METADATA = Metadata("id", schema_to_string(COLUMNS), ("p",))
PLAIN = schema_to_string(StructType((StructField("n", LONG),)))


def state(metadata: Metadata, *names: str) -> TableConfiguration:
    return TableConfiguration(Protocol(2, 7, None, names), metadata)


@pytest.mark.parametrize(
    "after",
    [
        replace(METADATA, id="another"),
        replace(METADATA, partition_columns=()),
        replace(METADATA, format_provider="orc"),
        replace(METADATA, configuration={"delta.appendOnly": "true"}),
        replace(METADATA, schema_string=PLAIN),
    ],
)
def test_metadata_that_files_depend_on_do_not_change_under_a_commit(after: Metadata) -> None:
    assert not metadata_may_change(state(METADATA), state(after))
    assert metadata_may_change(state(METADATA), state(METADATA))


def test_upkeep_and_users_own_properties_change_under_any_commit() -> None:
    for key in ("delta.checkpointInterval", "delta.logRetentionDuration", "owner"):
        set_now = replace(METADATA, configuration={key: "5"})
        assert metadata_may_change(state(METADATA), state(set_now))
        assert metadata_may_change(state(set_now), state(METADATA))
    binding = replace(METADATA, configuration={"delta.appendOnly": "false"})
    assert not metadata_may_change(state(binding), state(METADATA)), "it is gone"


def test_what_lies_in_a_schema_beside_the_metadata_of_fields_is_compared_whole() -> None:
    """Nested fields, and a property that is called as a key of field metadata is."""
    nested = (
        '{"type":"struct","fields":[{"name":"s","nullable":true,"metadata":{},"type":'
        '{"type":"struct","fields":[{"name":"n","type":"%s","nullable":true,"metadata":'
        '{"delta.identity.highWaterMark":%d,"comment":"%s"}}]}}]}'
    )
    marks = "identityColumns"

    def of(kind: str, mark: int, comment: str) -> TableConfiguration:
        return state(replace(METADATA, schema_string=nested % (kind, mark, comment)), marks)

    assert metadata_may_change(of("long", 1, "x"), of("long", 2, "x"))
    assert not metadata_may_change(of("long", 1, "x"), of("long", 2, "y"))
    assert not metadata_may_change(of("long", 1, "x"), of("string", 2, "x"))


def test_a_schema_is_the_same_however_its_text_is_laid_out() -> None:
    spaced = METADATA.schema_string.replace(",", ", ")
    assert spaced != METADATA.schema_string
    assert metadata_may_change(state(METADATA), state(replace(METADATA, schema_string=spaced)))


def test_a_field_whose_metadata_are_none_is_compared_as_it_is() -> None:
    odd = METADATA.schema_string.replace('"metadata":{}', '"metadata":null')
    assert odd != METADATA.schema_string
    assert not metadata_may_change(state(METADATA), state(replace(METADATA, schema_string=odd)))
