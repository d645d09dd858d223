"""deltalake's properties of writers as options of adelta's, with those of commits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta import DataFileOptions
from adelta.deltalake.writer.properties import writer_options

if TYPE_CHECKING:
    from adelta.deltalake._provenance import DeltalakeCommit
    from adelta.deltalake._raw import RawDeltaTable
    from adelta.deltalake.writer.properties import WriterProperties

__all__ = ["data_file_options", "with_data_files"]


def data_file_options(
    properties: WriterProperties | None, columns: list[str]
) -> DataFileOptions | None:
    """How data files with these columns are to be; None where nothing is asked for."""
    if properties is None:
        return None
    return DataFileOptions(writer_options=writer_options(properties, columns))


def with_data_files(
    options: DeltalakeCommit, properties: WriterProperties | None, table: RawDeltaTable
) -> DeltalakeCommit:
    """The options of a commit, and with them how data files of the table are to be."""
    columns = [
        name
        for name in table.snapshot.delta_schema.names
        if name not in table.snapshot.partition_columns
    ]
    files = data_file_options(properties, columns)
    if files is None:
        return options
    return replace(options, data_files=files)
