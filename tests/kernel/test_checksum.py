"""Version checksums: what they state, and where they disagree with a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa
import pytest

from adelta.errors import InvalidTableError
from adelta.kernel.actions.commit_info import CommitInfo
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.file_actions import AddFile, DeletionVectorDescriptor, RemoveFile
from adelta.kernel.actions.file_schemas import ADD_SCHEMA
from adelta.kernel.actions.json import decode_commits, encode_commit
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.checksum.advance import advanced
from adelta.kernel.checksum.json import decode, encode
from adelta.kernel.checksum.summary import summarize
from adelta.kernel.checksum.version_checksum import VersionChecksum, differences
from adelta.kernel.replay import reconcile

METADATA = Metadata("an-id", '{"type":"struct","fields":[]}', created_time=1)
PROTOCOL = Protocol(3, 7, ("deletionVectors",), ("deletionVectors",))
BOUNDARIES = (0, 8192, 16384)


def files(*sizes: int, deleted: dict[int, int] | None = None) -> pa.Table:
    rows = []
    for number, size in enumerate(sizes):
        cardinality = (deleted or {}).get(number)
        vector = cardinality and {
            "storageType": "i",
            "pathOrInlineDv": "x",
            "sizeInBytes": 1,
            "cardinality": cardinality,
        }
        rows.append({"path": str(number), "size": size, "deletion_vector": vector})
    return pa.Table.from_pylist(rows, schema=ADD_SCHEMA)


def summary(table: pa.Table, **more: Any) -> VersionChecksum:
    return summarize(table, PROTOCOL, METADATA, size_boundaries=BOUNDARIES, **more)


def test_a_table_is_summed_up() -> None:
    found = summary(files(1, 8191, 8192, 70_000, deleted={1: 5, 3: 1000}))
    assert (found.num_files, found.table_size_bytes) == (4, 86_384)
    assert (found.num_deleted_records, found.num_deletion_vectors) == (1005, 2)
    assert found.file_sizes is not None
    assert found.file_sizes.counts == (2, 1, 1)
    assert found.file_sizes.total_bytes == (8192, 8192, 70_000)
    assert found.deleted_record_counts == (2, 1, 0, 0, 1, 0, 0, 0, 0, 0)


def test_no_files_are_summed_up_to_nothing() -> None:
    found = summary(ADD_SCHEMA.empty_table())
    assert (found.num_files, found.table_size_bytes, found.num_deleted_records) == (0, 0, 0)
    assert found.deleted_record_counts == (0,) * 10


def test_a_checksum_comes_back_as_it_was_written() -> None:
    written = summary(
        files(1, 2, deleted={0: 3}),
        set_transactions=[SetTransaction("app", 4, 5)],
        domain_metadata=[DomainMetadata("a.domain", "{}")],
        in_commit_timestamp=123,
        transaction_id="txn",
    )
    assert decode(encode(written), "7.crc") == written
    assert differences(written, written) == ()


def test_only_what_is_stated_can_disagree() -> None:
    found = summary(files(1, 2))
    brief = VersionChecksum(2, 3, PROTOCOL, METADATA)
    assert differences(brief, found) == ()
    wrong = replace(
        brief,
        num_files=3,
        protocol=Protocol(1, 2),
        set_transactions=frozenset({SetTransaction("a", 1)}),
    )
    assert differences(wrong, found) == (
        "the number of files: 3 is stated, 2 found",
        "the protocol",
        "the application transactions",
    )


def listed_paths(checksum: VersionChecksum) -> list[str] | None:
    return None if checksum.all_files is None else [path for path, _ in checksum.all_files]


def test_fifty_files_are_listed_and_fifty_one_are_not() -> None:
    assert listed_paths(summary(files(*[1] * 50))) == [str(n) for n in range(50)]
    assert listed_paths(summary(files(*[1] * 51))) is None


def test_a_file_is_listed_as_its_add_action_without_a_change_of_data() -> None:
    vector = DeletionVectorDescriptor("u", "name", 40, 3, offset=1)
    add = AddFile(
        path="p=a/x%20y.parquet",
        partition_values={"p": None},
        size=5,
        modification_time=7,
        stats='{"numRecords": 9}',
        tags={"k": "v"},
        deletion_vector=vector,
        base_row_id=0,
        default_row_commit_version=2,
        clustering_provider="liquid",
    )
    info = CommitInfo(operation="WRITE", engine_info="adelta/1")
    commit = decode_commits([(0, encode_commit([info, add]))])
    counted = advanced(summary(files()), commit)
    assert counted is not None
    body = orjson.loads(encode(counted))
    assert body["allFiles"] == [add.to_json() | {"dataChange": False}]
    assert summary(reconcile([commit], "memory://t").adds).all_files == counted.all_files


@pytest.mark.parametrize(
    "action",
    [
        replace(METADATA, schema_string='{"type":"struct","fields":[ ]}'),
        METADATA.with_configuration({"delta.dataSkippingNumIndexedCols": "33"}),
        METADATA.with_configuration(
            {
                "delta.checkpoint.writeStatsAsJson": "false",
                "delta.checkpoint.writeStatsAsStruct": "false",
            }
        ),
        AddFile("0", {}, 1, 1),
        RemoveFile("%30", 1, size=1),
    ],
    ids=["new schema", "many indexed columns", "no statistics", "added again", "other spelling"],
)
def test_a_list_of_files_is_left_out_where_it_would_not_be_exact_or_is_not_wanted(
    action: Any,
) -> None:
    before = summary(files(1, 2))
    assert listed_paths(before) == ["0", "1"]
    info = CommitInfo(operation="WRITE", engine_info="adelta/1")
    after = advanced(before, decode_commits([(1, encode_commit([info, action]))]))
    assert after is not None
    assert listed_paths(after) is None
    assert "allFiles" not in orjson.loads(encode(after))


def test_a_table_without_files_has_an_empty_list_whatever_came_before() -> None:
    before = replace(summary(files(1)), all_files=None)
    info = CommitInfo(operation="DELETE", engine_info="adelta/1")
    removing = encode_commit([info, RemoveFile("0", 1, size=1)])
    after = advanced(before, decode_commits([(1, removing)]))
    assert after is not None
    assert after.all_files == {}


def valid() -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads(encode(summary(files(1))))
    return body


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"{}",
        orjson.dumps(valid() | {"numFiles": -1}),
        orjson.dumps(valid() | {"numFiles": True}),
        orjson.dumps(valid() | {"numFiles": "1"}),
        orjson.dumps(valid() | {"tableSizeBytes": None}),
        orjson.dumps(valid() | {"protocol": {"minReaderVersion": 0, "minWriterVersion": 1}}),
        orjson.dumps(valid() | {"metadata": {"id": "x"}}),
        orjson.dumps(valid() | {"metadata": 3}),
        orjson.dumps(valid() | {"setTransactions": [1]}),
        orjson.dumps(valid() | {"fileSizeHistogram": {"sortedBinBoundaries": [0]}}),
        orjson.dumps(
            valid()
            | {
                "fileSizeHistogram": {
                    "sortedBinBoundaries": [0, 5, 5],
                    "fileCounts": [0, 0, 0],
                    "totalBytes": [0, 0, 0],
                }
            }
        ),
        orjson.dumps(valid() | {"allFiles": [1]}),
        orjson.dumps(valid() | {"allFiles": [{}]}),
        orjson.dumps(valid() | {"allFiles": []}),
        orjson.dumps(valid() | {"allFiles": [{"path": "0", "size": 2}]}),
        orjson.dumps(valid() | {"allFiles": [{"path": 0, "size": 1}]}),
        orjson.dumps(valid() | {"allFiles": [{"path": "0", "size": 1, "deletionVector": "x"}]}),
        orjson.dumps(
            valid()
            | {"numFiles": 2, "tableSizeBytes": 2, "allFiles": [{"path": "0", "size": 1}] * 2}
        ),
        b"[" * 100_000,
    ],
)
def test_a_damaged_checksum_is_an_error_that_names_the_file(damage: bytes) -> None:
    with pytest.raises(InvalidTableError, match=r"00007\.crc"):
        decode(damage, "_delta_log/00007.crc")


def test_the_older_name_of_the_histogram_is_read_and_removed_domains_do_not_count() -> None:
    body = valid()
    body["histogramOpt"] = body.pop("fileSizeHistogram")
    body["domainMetadata"] = [{"domain": "d", "configuration": "", "removed": True}]
    read = decode(orjson.dumps(body), "x.crc")
    assert read.file_sizes is not None
    assert read.domain_metadata == frozenset()
