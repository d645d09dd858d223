from __future__ import annotations

import pytest

from adelta.kernel.deletable import parse_sidecar_path, parse_written_path

UUID = "3a0d65cd-4056-49b8-937b-95f9e3ee90e5"
PART = f"part-00000-{UUID}.c000.zstd.parquet"
CDC = f"cdc-00000-{UUID}.c000.parquet"


@pytest.mark.parametrize(
    "path",
    [
        f"_delta_log/_sidecars/{UUID}.parquet",
        f"_delta_log/_sidecars/{UUID.upper()}.parquet",
        f"_delta_log/_sidecars/{7:020d}.checkpoint.{1:010d}.{2:010d}.{UUID}.parquet",
    ],
)
def test_sidecars_are_known_by_their_names(path: str) -> None:
    found = parse_sidecar_path(path, 5, 6)
    assert found is not None
    assert (found.path, found.size, found.last_modified_ms) == (path, 5, 6)


@pytest.mark.parametrize(
    "path",
    [
        f"_delta_log/{UUID}.parquet",
        f"_delta_log/_sidecars/{UUID}.json",
        f"_delta_log/_sidecars/{UUID}.parquet\n",
        f"_delta_log/_sidecars/sub/{UUID}.parquet",
        f"_delta_log/_sidecars/my-{UUID}.parquet",
        "_delta_log/_sidecars/README.parquet",
        "_delta_log/_sidecars/.parquet",
        f"table/_delta_log/_sidecars/{UUID}.parquet",
    ],
)
def test_what_else_lies_there_is_no_sidecar(path: str) -> None:
    assert parse_sidecar_path(path) is None


@pytest.mark.parametrize(
    "path",
    [
        PART,
        f"day=2026-01-01/{PART}",
        f"a%20b/c=d/part-123456-{UUID}.c000.parquet",
        f"_change_data/{CDC}",
        f"_change_data/day=1/{CDC}",
        f"deletion_vector_{UUID}.bin",
        f"ab/deletion_vector_{UUID}.bin",
    ],
)
def test_what_adelta_writes_is_known_by_its_name(path: str) -> None:
    found = parse_written_path(path)
    assert found is not None
    assert found.path == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "salaries.parquet",
        f"/{PART}",
        f"../{PART}",
        f"day=1/../../{PART}",
        f"day=1//{PART}",
        f"file:///lake/{PART}",
        f"_delta_log/{PART}",
        f"_delta_log/_sidecars/{UUID}.parquet",
        f"_delta_log/deletion_vector_{UUID}.bin",
        "_delta_log/00000000000000000000.json",
        CDC,
        f"deletion_vector_{UUID}.bin.bak",
        f"{PART}\n",
        f"{PART}/x",
    ],
)
def test_whatever_else_there_is_was_not_written_by_adelta(path: str) -> None:
    assert parse_written_path(path) is None
