"""Tables without rows: CREATE TABLE, and CREATE OR REPLACE TABLE."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta import sync
from adelta.deltalake._protocol import NEW
from adelta.deltalake._storage_options import known_options, open_table
from adelta.deltalake._util import check_flag, check_text
from adelta.deltalake.exceptions import DeltaError, raises_as_deltalake
from adelta.deltalake.writer.modes import (
    check_known_keys,
    checked_mode,
    properties_of,
    split_properties,
)
from adelta.errors import TableAlreadyExistsError, TableNotFoundError
from adelta.kernel.schema.types import StructType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.deltalake._provenance import DeltalakeCommit
    from adelta.deltalake._types import Schema

__all__ = ["create"]

_SAVE_MODES = {"overwrite": "Overwrite", "ignore": "Ignore"} | dict.fromkeys(
    ("error", "append"), "ErrorIfExists"
)


@raises_as_deltalake
def create(
    uri: str,
    schema: Schema,
    mode: str,
    partition_by: list[str],
    name: str | None,
    description: str | None,
    configuration: Mapping[str, str | None] | None,
    storage_options: dict[str, str] | None,
    options: DeltalakeCommit,
    *,
    knows_keys: bool = True,
) -> None:
    """Create an empty table, or replace the one that is there.

    Raises:
        DeltaError: there is a table, and the mode is ``error``; or there is no such mode.
    """
    mode = checked_mode(mode)
    check_flag(knows_keys)
    check_text(*(each for each in (name, description) if each is not None))
    properties = properties_of(configuration)
    if knows_keys:
        check_known_keys(properties)
    if not schema.fields:
        raise DeltaError("Generic error: At least one column must be defined to create a table.")
    columns = StructType(schema._kind.fields)
    for column in partition_by:
        if columns.field(column) is None:
            raise DeltaError(
                f"Kernel error: Generic delta kernel error: Partition column '{column}' not found "
                "in schema"
            )
    properties, beside = split_properties(properties)
    with open_table(uri, storage_options) as handle:
        location = f"{handle.uri.rstrip('/')}/"
        there = mode == "overwrite" and _exists(handle)
    options = replace(
        options,
        parameters={"mode": _SAVE_MODES[mode], **options.parameters},
        properties=beside,
        location=location,
        before=None if there else NEW,
    )
    if mode == "overwrite":
        with open_table(uri, storage_options) as handle:
            sync.replace_table(
                handle.committing(options),
                columns,
                partition_by=partition_by,
                properties=properties,
                name=name,
                description=description,
                or_create=True,
            )
        return
    try:
        sync.create_table(
            uri,
            columns,
            partition_by=partition_by,
            properties=properties,
            name=name,
            description=description,
            mode="ignore" if mode == "ignore" else "error",
            storage_options=known_options(storage_options),
            commits=options,
        )
    except TableAlreadyExistsError as error:
        if mode == "append":
            raise DeltaError(
                "Generic error: SaveMode `append` is not allowed for create operation."
            ) from error
        raise DeltaError(
            f"Generic error: A Delta Lake table already exists at that location. {error}"
        ) from error


def _exists(handle: sync.Table) -> bool:
    try:
        handle.snapshot()
    except TableNotFoundError:
        return False
    return True
