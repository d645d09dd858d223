"""Names in `_delta_log`."""

import pytest

from adelta.kernel.log_path import (
    LogFileKind,
    checkpoint_part_path,
    checkpoint_path,
    checksum_path,
    commit_path,
    compaction_path,
    parse_log_path,
    sidecar_path,
    v2_checkpoint_path,
)


@pytest.mark.parametrize(
    ("path", "kind", "version"),
    [
        (commit_path(7), LogFileKind.COMMIT, 7),
        (checksum_path(7), LogFileKind.CHECKSUM, 7),
        (checkpoint_path(7), LogFileKind.CLASSIC_CHECKPOINT, 7),
        (checkpoint_part_path(7, 2, 3), LogFileKind.MULTI_PART_CHECKPOINT, 7),
        (v2_checkpoint_path(7, "80a083e8-7026"), LogFileKind.UUID_CHECKPOINT, 7),
        ("_delta_log/00000000000000000007.checkpoint.80a0.json", LogFileKind.UUID_CHECKPOINT, 7),
        (compaction_path(4, 7), LogFileKind.COMPACTION, 7),
        (
            "_delta_log/_staged_commits/00000000000000000007.3a0d65cd.json",
            LogFileKind.STAGED_COMMIT,
            7,
        ),
    ],
)
def test_every_name_of_the_protocol_is_known(path: str, kind: LogFileKind, version: int) -> None:
    parsed = parse_log_path(path, size=10, last_modified_ms=20)
    assert parsed is not None
    assert (parsed.kind, parsed.version, parsed.size) == (kind, version, 10)


def test_a_compaction_says_where_it_starts() -> None:
    parsed = parse_log_path(compaction_path(4, 7))
    assert parsed is not None
    assert (parsed.start_version, parsed.version) == (4, 7)


@pytest.mark.parametrize(
    "path",
    [
        "_delta_log/_last_checkpoint",
        "_delta_log/00000000000000000007.json.tmp",
        "_delta_log/.00000000000000000007.json.crc",
        "_delta_log/00000000000000000007.checkpoint.0000000004.0000000003.parquet",
        "_delta_log/00000000000000000007.00000000000000000004.compacted.json",
        "_delta_log/_sidecars/3a0d65cd.parquet",
        "_delta_log/99999999999999999999.json",
        "00000000000000000007.json",
        "part-00000.parquet",
    ],
)
def test_anything_else_is_ignored(path: str) -> None:
    assert parse_log_path(path) is None


def test_a_sidecar_may_be_named_bare_or_in_full() -> None:
    assert sidecar_path("a.parquet") == "_delta_log/_sidecars/a.parquet"
    assert sidecar_path("_delta_log/_sidecars/a.parquet") == "_delta_log/_sidecars/a.parquet"
