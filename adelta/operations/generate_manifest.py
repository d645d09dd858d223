"""GENERATE: symlink manifests, by which engines that read no log find a table's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._arguments import checked
from adelta._dataclasses import dataclass
from adelta.table import latest_state, opened
from adelta.write.symlink_manifests import write_manifests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.progress import OnProgress
    from adelta.table import TableOrAddress

__all__ = ["ManifestMetrics", "generate_manifest"]


@dataclass(frozen=True, slots=True)
class ManifestMetrics:
    """What was written: `num_manifests` that name the `num_files` files of a `version`.

    `num_removed` are the manifests of partitions that have no files any more.
    """

    version: int
    num_manifests: int
    num_files: int
    num_removed: int


@checked
async def generate_manifest(
    table: TableOrAddress,
    *,
    on_progress: OnProgress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> ManifestMetrics:
    """Write the manifests of the latest version, below ``_symlink_format_manifest`` in the table.

    That is a manifest a partition (``part=x/manifest``), or one for a table without partitions;
    each line is the address of a data file. Commits keep them up from then on where the table has
    the property ``delta.compatibility.symlinkFormatManifest.enabled``. `on_progress` is told of the
    manifests; where somebody commits meanwhile they are written again.

    Raises:
        InvalidUseError: the table has deletion vectors or maps its columns, so that engines which
            read manifests would read wrong rows.
        TableNotFoundError: there is no table.
        InvalidTableError: the log is damaged.
        StorageError: the store refused or failed.
    """
    async with opened(table, storage_options) as handle:
        state = await latest_state(handle)
        state.configuration.check_writable(handle.uri)
        done = await write_manifests(state, on_progress)
        return ManifestMetrics(done.version, done.num_manifests, done.num_files, done.num_removed)
