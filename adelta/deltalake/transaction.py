"""Commits under deltalake's names: actions, properties, and tables made of files in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from adelta.deltalake._actions import (
    AddAction,
    CommitProperties,
    PostCommitHookProperties,
    RemoveAction,
    Transaction,
    added_file,
    commit_options,
)
from adelta.deltalake._storage_options import open_table
from adelta.deltalake._types import Schema
from adelta.deltalake._util import deprecate_positional_commit_args
from adelta.deltalake.exceptions import raises_as_deltalake
from adelta.deltalake.writer.creation import create

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "AddAction",
    "CommitProperties",
    "PostCommitHookProperties",
    "RemoveAction",
    "Schema",
    "Transaction",
    "create_table_with_add_actions",
]


@raises_as_deltalake
def create_table_with_add_actions(
    table_uri: str,
    schema: Schema,
    add_actions: list[AddAction],
    mode: Literal["error", "append", "overwrite", "ignore"] = "error",
    partition_by: list[str] | str | None = None,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    storage_options: dict[str, str] | None = None,
    *args: Any,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
) -> None:
    """Create a table, and add files that are in place already, by two commits.

    Nobody opens the files: what the actions say of them has to be true.
    """
    commit, after = deprecate_positional_commit_args(
        "create_table_with_add_actions", args, commit_properties, post_commithook_properties
    )
    columns = [partition_by] if isinstance(partition_by, str) else partition_by or []
    options = commit_options(commit, after)
    there = mode == "ignore" and _exists(table_uri, storage_options)
    create(
        table_uri,
        schema,
        mode,
        columns,
        name,
        description,
        configuration,
        storage_options,
        options,
    )
    if there or not add_actions:
        return
    with open_table(table_uri, storage_options) as handle:
        told = handle.committing(options)
        with told.transaction("WRITE", parameters={"mode": "Append"}) as tx:
            tx.add_files([added_file(each) for each in add_actions])


def _exists(uri: str, storage_options: dict[str, str] | None) -> bool:
    from adelta.deltalake._raw import RawDeltaTable

    return RawDeltaTable.is_deltatable(uri, storage_options)
