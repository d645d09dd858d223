"""The first commit of a table, where another writer has created the table first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adelta.errors import MetadataChangedError, UnsupportedFeatureError
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.file_actions import AddFile
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.types import LONG, STRING, DataType, StructField, StructType
from adelta.kernel.staged import StagedChanges
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.transaction.creation import rebase_creation

ROOT = "memory://lake/t"
ADD = AddFile("a", {}, 1, 1)
CLUSTERED = DomainMetadata("delta.clustering", '{"clusteringColumns":[["v"]]}')


def metadata(kind: DataType = LONG, **configuration: str) -> Metadata:
    schema = schema_to_string(StructType((StructField("v", kind),)))
    return Metadata("mine", schema, configuration=configuration)


PLAIN = Protocol(1, 2)
MINE = StagedChanges("t", protocol=PLAIN, metadata=metadata(), adds=(ADD,))


def theirs(protocol: Protocol = PLAIN, **more: str) -> TableConfiguration:
    return TableConfiguration(protocol, replace(metadata(**more), id="theirs"))


def test_files_for_the_one_are_files_for_the_other_where_the_tables_are_the_same() -> None:
    assert rebase_creation(MINE, theirs(), {}, ROOT) == StagedChanges("t", adds=(ADD,))
    upkeep = theirs(**{"delta.checkpointInterval": "5"})
    assert rebase_creation(MINE, upkeep, {}, ROOT).metadata is None
    wider = theirs(Protocol(1, 7, None, ("appendOnly", "invariants", "domainMetadata")))
    assert rebase_creation(MINE, wider, {}, ROOT).protocol is None


def test_other_columns_properties_and_features_are_another_table() -> None:
    columns = TableConfiguration(Protocol(1, 2), replace(metadata(STRING), id="theirs"))
    constraint = theirs(Protocol(1, 3), **{"delta.constraints.c": "v > 0"})
    needed = theirs(Protocol(1, 7, None, ("appendOnly", "checkConstraints", "invariants")))
    for other in (columns, constraint, needed):
        with pytest.raises(MetadataChangedError, match="created the table meanwhile"):
            rebase_creation(MINE, other, {}, ROOT)


def test_a_table_that_is_clustered_by_other_columns_is_another_table() -> None:
    mine = replace(MINE, domains=(CLUSTERED,))
    name = CLUSTERED.domain
    assert rebase_creation(mine, theirs(), {name: CLUSTERED}, ROOT).domains == ()
    for domains in ({}, {name: replace(CLUSTERED, configuration="{}")}):
        with pytest.raises(MetadataChangedError):
            rebase_creation(mine, theirs(), domains, ROOT)


def test_a_table_that_needs_what_adelta_lacks_takes_no_rows() -> None:
    unknown = Protocol(1, 7, None, ("appendOnly", "invariants", "unheardOf"))
    same = replace(MINE, protocol=unknown)
    with pytest.raises(UnsupportedFeatureError, match="unheardOf"):
        rebase_creation(same, theirs(unknown), {}, ROOT)
