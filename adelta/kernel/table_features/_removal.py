"""How a feature is dropped from a table: what has to go from its state first, and from its history.

A table supports a feature until nothing of its latest version uses it. Features that bind readers
leave traces in earlier versions too, which clients without the feature must not come upon: so
either these versions go, or checkpoints are kept that keep such clients from them.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from adelta.kernel.actions.metadata import Metadata

__all__ = ["Removal", "unset", "with_properties"]


def _unchanged(metadata: Metadata) -> Metadata:
    return metadata


def _nothing(_metadata: Metadata) -> None:
    return None


def _never(_metadata: Metadata) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Removal:
    """What dropping a feature takes.

    Attributes:
        operation: what the history calls the commit that removes what uses the feature.
        parameters: what the history says of that commit, besides which feature it is.
        obstacle: what users have to undo themselves first, as the end of a sentence; None if there
            is nothing.
        cleaned: the metadata without what uses the feature.
        column: a column of file actions that has a value where the file's rows need the feature,
            and so have to be written anew.
        all_files: whether the rows of every file have to be, but for those that are `clean`.
        clean: whether a file with this schema needs no rewriting.
        cleared: columns of file actions that become null, while the files stay.
        domains: the domain metadata that go together with the feature; None for all that are left.
        forgotten: the properties that go together with the feature.
        exclusive: whether files that others add meanwhile would use the feature again.
        protects_history: whether earlier versions that use it harm clients that lack it.
        used: whether the metadata of an earlier version used it.
        in_checkpoints: whether checkpoints that are not classic used it.
        needs_truncation: whether it can be dropped only together with the history that it protects.
    """

    operation: str = "UNSET TBLPROPERTIES"
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)
    obstacle: Callable[[Metadata], str | None] = field(default=_nothing, hash=False)
    cleaned: Callable[[Metadata], Metadata] = field(default=_unchanged, hash=False)
    column: str | None = None
    all_files: Callable[[Metadata], bool] = field(default=_never, hash=False)
    clean: Callable[[pa.Schema, Metadata], bool] | None = field(default=None, hash=False)
    cleared: tuple[str, ...] = ()
    domains: tuple[str, ...] | None = ()
    forgotten: tuple[str, ...] = ()
    exclusive: bool = False
    protects_history: bool = False
    used: Callable[[Metadata], bool] = field(default=_never, hash=False)
    in_checkpoints: bool = False
    needs_truncation: bool = False


def unset(metadata: Metadata, *keys: str) -> Metadata:
    """`metadata` without the properties of these keys, whatever their case."""
    gone = {key.lower() for key in keys}
    kept = {k: v for k, v in metadata.configuration.items() if k.lower() not in gone}
    return (
        metadata
        if len(kept) == len(metadata.configuration)
        else (metadata.with_configuration(kept))
    )


def with_properties(metadata: Metadata, properties: Mapping[str, str]) -> Metadata:
    """`metadata` with these properties set."""
    rest = unset(metadata, *properties)
    return metadata.with_configuration({**rest.configuration, **properties})
