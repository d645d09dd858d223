from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adelta.errors import InvalidOptionError
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.file_actions import AddFile, DeletionVectorDescriptor, RemoveFile
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.types import DATE, LONG, StructField, StructType
from adelta.kernel.staged import StagedChanges
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.transaction.precommit import check_existing_files, check_files, check_staged
from adelta.kernel.transaction.removal import removes_table

VECTOR = DeletionVectorDescriptor("i", "x", 1, 1)
ROOT = "memory://lake/t"


def add(path: str, **values: str | None) -> AddFile:
    return AddFile(path, values, 1, 1)


def test_a_file_is_not_removed_and_added_in_one_commit_but_for_another_vector() -> None:
    """Engines differ in what they make of it: some read no row of the file."""
    for path in ("a", f"{ROOT}/a"):
        gone = removes_table([RemoveFile(path, 1)])
        with pytest.raises(InvalidOptionError, match="'a' is removed and added"):
            check_staged(StagedChanges("i", adds=(add("a"),), removes=gone), [], root=ROOT)
        under_vector = replace(add("a"), deletion_vector=VECTOR)
        check_staged(StagedChanges("i", adds=(under_vector,), removes=gone), [], root=ROOT)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (StagedChanges("i", adds=(add("a"), add("b"), add("a"))), "'a' is added twice"),
        (StagedChanges("i", adds=(add("a b"), add("a%20b"))), "'a b' is added twice"),
        (StagedChanges("i", adds=(add("a"), add(f"{ROOT}/a"))), "'a' is added twice"),
        (
            StagedChanges("i", removes=removes_table([RemoveFile("a", 1), RemoveFile("a", 2)])),
            "removed twice",
        ),
        (
            StagedChanges(
                "i",
                removes=removes_table(
                    [RemoveFile("a", 1), RemoveFile("a", 1, deletion_vector=VECTOR)]
                ),
            ),
            "removed twice",
        ),
        (
            StagedChanges("i", domains=(DomainMetadata("d", "1"), DomainMetadata("d", "2"))),
            "'d' is set twice",
        ),
    ],
)
def test_nothing_is_said_twice_in_one_commit(changes: StagedChanges, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        check_staged(changes, [], root=ROOT)


def test_a_file_has_a_value_for_every_partition_column_and_no_other() -> None:
    check_staged(StagedChanges("i", adds=(add("a", p=None, q="1"),)), ["p", "q"], root=ROOT)
    for file in (add("a"), add("a", p="1"), add("a", p="1", q="1", r="1")):
        with pytest.raises(InvalidOptionError, match=r"the table's are \(p, q\)"):
            check_staged(StagedChanges("i", adds=(file,)), ["p", "q"], root=ROOT)


@pytest.mark.parametrize(
    "wrong",
    [
        {"path": ""},
        {"path": 7},
        {"size": -1},
        {"size": 2**63},
        {"size": 1.5},
        {"size": True},
        {"size": None},
        {"modification_time": "now"},
        {"data_change": "no"},
        {"stats": {"numRecords": 1}},
        {"tags": {"a": 1}},
        {"tags": {1: "a"}},
        {"tags": 7},
        {"partition_values": None},
        {"partition_values": {"p": 1}},
        {"base_row_id": "0"},
        {"base_row_id": -3},
        {"path": "_delta_log/00000000000000000009.json"},
        {"path": "../other/a.parquet"},
        {"path": "a%00b"},
        {"path": "\ud800"},
        {"stats": "\ud800"},
        {"tags": {"a": "\ud800"}},
        {"deletion_vector": "v"},
    ],
)
def test_what_a_log_cannot_hold_is_refused(wrong: dict[str, object]) -> None:
    file = replace(add("a", p=None), **wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match=f"an AddFile has the {next(iter(wrong))}"):
        check_files([file])


@pytest.mark.parametrize("files", [["a.parquet"], [None], 7])
def test_what_is_no_list_of_files_is_refused(files: Any) -> None:
    with pytest.raises(InvalidOptionError, match=r"is no (list of )?AddFile; pass"):
        check_files(files)


TABLE = TableConfiguration(
    Protocol(1, 2),
    Metadata(
        id="t",
        schema_string=schema_to_string(
            StructType((StructField("id", LONG), StructField("Day", DATE), StructField("n", LONG)))
        ),
        partition_columns=("Day", "n"),
    ),
)


def files_given(stats: str | None = None, **values: str | None) -> list[AddFile]:
    fine = replace(add("fine", Day="2024-02-29", n="-7"), stats='{"numRecords":1}')
    return [fine, replace(add("wrong", **values), stats=stats)]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"Day": "yesterday", "n": "1"}, "'yesterday' for the partition column 'Day', .* a date"),
        ({"Day": "2023-02-29", "n": "1"}, "'2023-02-29'"),
        ({"Day": "2023-02-28", "n": "1.5"}, "'1.5' for the partition column 'n', .* a long"),
        ({"Day": "2023-02-28", "n": str(2**63)}, "column 'n'"),
        ({"Day": "__HIVE_DEFAULT_PARTITION__", "n": "1"}, "or None"),
    ],
)
def test_a_partition_value_is_one_of_its_columns_type(values: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"the file 'wrong' has the value .*{says}"):
        check_existing_files(files_given(**values), TABLE)


@pytest.mark.parametrize(
    ("stats", "says"),
    [
        ("numRecords", "no JSON"),
        ("", "no JSON"),
        ("[1]", "no JSON object"),
        ("{}", "numRecords"),
        ('{"numRecords":-1}', "numRecords"),
        ('{"numRecords":true}', "numRecords"),
        ('{"numRecords":1.5}', "numRecords"),
        ('{"numRecords":"1"}', "numRecords"),
        ('{"numRecords":9223372036854775808}', "numRecords"),
        ('{"numRecords":1,"minValues":[1]}', "minValues"),
        ('{"numRecords":1,"maxValues":"z"}', "maxValues"),
        ('{"numRecords":1,"nullCount":0}', "nullCount"),
    ],
)
def test_statistics_are_a_json_object_of_their_kind(stats: str, says: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"'wrong' has the statistics .*, who?.* {says}"):
        check_existing_files(files_given(stats, Day=None, n=None), TABLE)


@pytest.mark.parametrize(
    "stats",
    [
        None,
        '{"numRecords":0}',
        '{"numRecords":1,"minValues":{"nobody":{"x":1}},"nullCount":null,"tightBounds":true}',
    ],
)
def test_what_readers_tolerate_is_let_be(stats: str | None) -> None:
    files = files_given(stats, Day="", n=" 3 ")
    assert check_existing_files(iter(files), TABLE) == tuple(files)


IN_A_FILE = DeletionVectorDescriptor("u", "ab" * 10, 40, 2, 1)


def unpartitioned(*features: str) -> TableConfiguration:
    metadata = Metadata("m", '{"type":"struct","fields":[]}')
    return TableConfiguration(Protocol(3, 7, features, features), metadata)


def test_a_vector_is_taken_where_the_table_supports_vectors() -> None:
    file = AddFile("a", {}, 1, 1, deletion_vector=IN_A_FILE)
    assert check_existing_files([file], unpartitioned("deletionVectors")) == (file,)
    bare = AddFile("a", {}, 1, 1)
    assert check_existing_files([bare], unpartitioned()) == (bare,)
    with pytest.raises(InvalidOptionError, match="add the feature deletionVectors"):
        check_existing_files([file], unpartitioned())


@pytest.mark.parametrize(
    "wrong",
    [
        {"storage_type": "x"},
        {"storage_type": 1},
        {"path_or_inline_dv": None},
        {"size_in_bytes": -1},
        {"size_in_bytes": "40"},
        {"cardinality": -1},
        {"cardinality": True},
        {"offset": -1},
    ],
)
def test_a_vector_that_no_reader_finds_is_refused(wrong: dict[str, Any]) -> None:
    file = AddFile("a", {}, 1, 1, deletion_vector=replace(IN_A_FILE, **wrong))
    with pytest.raises(InvalidOptionError, match="deletion_vector"):
        check_existing_files([file], unpartitioned("deletionVectors"))


def test_files_say_their_rows_where_the_table_demands_it() -> None:
    silent = StagedChanges("i", adds=(AddFile("a", {}, 1, 1, stats="{}"),))
    check_staged(silent, (), root="memory://t")
    with pytest.raises(InvalidOptionError, match="has no numRecords"):
        check_staged(silent, (), root="memory://t", counted=True)
    said = StagedChanges("i", adds=(AddFile("a", {}, 1, 1, stats='{"numRecords":1}'),))
    check_staged(said, (), root="memory://t", counted=True)
