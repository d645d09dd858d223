"""Storage options that programs for deltalake pass."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta
from adelta.deltalake import DeltaTable, Schema, convert_to_deltalake, write_deltalake
from adelta.deltalake._storage_options import known_options
from adelta.deltalake.fs import DeltaStorageHandler
from adelta.deltalake.transaction import create_table_with_add_actions
from adelta.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = pa.table({"id": [1]})
UNKNOWN = {"aws_regoin": "eu-central-1"}


def convert(uri: str) -> None:
    Path(uri).mkdir()
    pq.write_table(ROWS, f"{uri}/a.parquet")
    convert_to_deltalake(uri, storage_options=UNKNOWN)


CALLS: list[Callable[[str], object]] = [
    lambda uri: write_deltalake(uri, ROWS, storage_options=UNKNOWN),
    lambda uri: DeltaTable.create(uri, ROWS.schema, storage_options=UNKNOWN),
    lambda uri: DeltaTable.create(uri, ROWS.schema, mode="overwrite", storage_options=UNKNOWN),
    lambda uri: DeltaTable.is_deltatable(uri, UNKNOWN),
    lambda uri: create_table_with_add_actions(
        uri, Schema.from_arrow(ROWS.schema), [], storage_options=UNKNOWN
    ),
    convert,
]


@pytest.mark.parametrize("call", CALLS)
def test_an_unknown_option_is_a_warning_that_names_the_line_of_the_program(
    tmp_path: Path, call: Callable[[str], object]
) -> None:
    with pytest.warns(UserWarning, match="did you mean aws_region") as caught:
        call(str(tmp_path / "table"))
    assert {warning.filename for warning in caught} == {__file__}


def test_a_table_with_an_unknown_option_is_read_and_written(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="aws_regoin"):
        write_deltalake(str(tmp_path), ROWS, storage_options=UNKNOWN)
    with pytest.warns(UserWarning, match="aws_regoin"):
        table = DeltaTable(str(tmp_path), storage_options=UNKNOWN)
    with pytest.warns(UserWarning, match="aws_regoin"):
        files = table.to_pyarrow_dataset()
    assert files.to_table() == ROWS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_deltalake(table, ROWS, mode="append")
    assert table.to_pyarrow_table().num_rows == 2
    assert table._storage_options == UNKNOWN


def test_adeltas_own_api_refuses_an_unknown_option(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="did you mean aws_region"):
        adelta.sync.open_table(str(tmp_path), UNKNOWN)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"PROFILE_NAME": "analytics"}, {"aws_profile": "analytics"}),
        ({"PROFILE_NAME": "default"}, {}),
        ({"PROFILE_NAME": "a", "AWS_PROFILE": "b"}, {"AWS_PROFILE": "b"}),
        ({"AWS_STORAGE_ALLOW_HTTP": "true"}, {"aws_allow_http": "true"}),
        ({"max_buffer_size": "1048576", "timeout": "5s"}, {"timeout": "5s"}),
        (None, None),
    ],
)
def test_names_that_programs_pass_are_read_as_those_of_adelta(
    given: dict[str, str] | None, read: dict[str, str] | None
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert known_options(given) == read


@pytest.mark.parametrize("size", [1, 5 * 1024 * 1024 - 1])
def test_a_small_max_buffer_size_is_a_warning_and_the_file_is_whole(
    tmp_path: Path, size: int
) -> None:
    handler = DeltaStorageHandler(str(tmp_path), options={"max_buffer_size": str(size)})
    with pytest.warns(UserWarning, match=f"max_buffer_size` of {size} bits less than 5242880"):
        stream = handler.open_output_stream("file")
    stream.write(b"0123456789")
    stream.close()
    assert (tmp_path / "file").read_bytes() == b"0123456789"
