"""Cubes: files that were clustered together, as their tags say, and what is to be clustered again.

A cube is what one task has written along a curve. It stays as it is once it is large enough. Files
that belong to none, and cubes that are too small, are clustered together (Delta's ZCubes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from adelta._chance import new_uuid
from adelta._dataclasses import dataclass
from adelta.kernel.schema.alteration import shown
from adelta.kernel.table_features import physical_clustering_columns
from adelta.operations.rearrange.bins import (
    Bin,
    by_partition,
    has_too_many_deleted,
    in_order,
)
from adelta.operations.rearrange.copying import bare
from adelta.operations.rearrange.metrics import ClusteringStats, FilesAndBytes, ZOrderStats
from adelta.operations.rearrange.run import Plan, PlannedBin
from adelta.operations.rearrange.tasks import ClusterTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.operations.rearrange.bins import FileSizes
    from adelta.operations.rearrange.curves import Curve

__all__ = ["Cube", "CubeSizes", "cube_tags", "plan_clustering", "plan_z_order"]

_ID: Final = "ZCUBE_ID"
_COLUMNS: Final = "ZCUBE_ZORDER_BY"
_CURVE: Final = "ZCUBE_ZORDER_CURVE"
_PHYSICAL: Final = "adelta.zcube.physicalColumns"
"""What files call the columns: it stays where a column gets another name, or its name another."""
_TAGS: Final = (_ID, _COLUMNS, _CURVE, _PHYSICAL)
_PROVIDER: Final = "liquid"
_GIB: Final = 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CubeSizes:
    """Bytes of a cube: one that has `least` stays; a new one has `target` at most."""

    least: int = 100 * _GIB
    target: int = 150 * _GIB


@dataclass(frozen=True, slots=True)
class Cube:
    """What the tags of a file say of the cube that it belongs to; `physical` is adelta's own."""

    id: str
    columns: tuple[str, ...]
    physical: tuple[str, ...] = ()

    @classmethod
    def of(cls, file: AddFile) -> Cube | None:
        """The file's cube, None where it belongs to none."""
        tags = file.tags or {}
        cube, columns = tags.get(_ID), tags.get(_COLUMNS)
        if cube is None or columns is None:
            return None
        try:
            physical = map(str, orjson.loads(tags.get(_PHYSICAL) or "[]"))
            return cls(cube, tuple(map(str, orjson.loads(columns))), tuple(physical))
        except (orjson.JSONDecodeError, TypeError):
            return None


@dataclass(frozen=True, slots=True)
class _Order:
    """The columns that rows are sorted by: what the table calls them, and what files do."""

    columns: tuple[str, ...]
    physical: tuple[str, ...]

    @classmethod
    def by(cls, paths: Sequence[tuple[str, ...]], configuration: TableConfiguration) -> _Order:
        stored = physical_clustering_columns(paths, configuration.metadata)
        return cls(tuple(map(shown, paths)), tuple(map(shown, stored)))

    def is_of(self, cube: Cube) -> bool:
        """Whether the rows of a cube are in this order."""
        return cube.physical == self.physical if cube.physical else cube.columns == self.columns

    @property
    def tags(self) -> dict[str, str]:
        return {
            _COLUMNS: orjson.dumps(self.columns).decode(),
            _PHYSICAL: orjson.dumps(self.physical).decode(),
        }


def cube_tags(file: AddFile) -> dict[str, str]:
    """The tags that say of which cube a file is; none where it is of none."""
    if Cube.of(file) is None:
        return {}
    tags = file.tags or {}
    return {name: value for name in _TAGS if (value := tags.get(name))}


def plan_z_order(
    configuration: TableConfiguration,
    files: Sequence[AddFile],
    columns: Sequence[tuple[str, ...]],
    sizes: FileSizes,
) -> Plan:
    """A bin of every partition that is not one cube in this order already. CPU-heavy.

    Raises:
        InvalidTableError: a partition value is not of its column's type.
    """
    order = _Order.by(columns, configuration)
    bins = []
    for group in by_partition(files, configuration):
        cubes = {Cube.of(file) for file in group}
        (cube, *others) = cubes
        done = not others and cube is not None and order.is_of(cube)
        if not done or any(has_too_many_deleted(file, sizes) for file in group):
            bins.append(_planned(configuration, in_order(group), columns, "zorder", sizes))
    merged = FilesAndBytes.of([file for one in bins for file in one.bin.files])
    stats = ZOrderStats("all", FilesAndBytes(), merged, 0, merged, len(bins))
    return Plan(tuple(bins), len(files), len(bins), z_order=stats)


def plan_clustering(
    configuration: TableConfiguration,
    files: Sequence[AddFile],
    columns: Sequence[tuple[str, ...]],
    sizes: FileSizes,
    cubes: CubeSizes,
    *,
    full: bool,
) -> Plan:
    """Bins of files of no cube, and of cubes that are too small. CPU-heavy.

    Files clustered by other columns, or by others' means, stay as they are, unless the run is
    `full`.
    """
    order = _Order.by(columns, configuration)
    mine = [file for file in files if _is_mine(file, order)]
    chosen = _worth_it(mine, cubes, sizes)
    others = [file for file in files if not _is_mine(file, order)] if full else []
    if not others and len({_cube_id(file) for file in chosen}) <= 1:
        deleted = any(has_too_many_deleted(file, sizes) for file in chosen)
        if not deleted and all(Cube.of(file) for file in chosen):
            chosen = []
    bins: list[list[AddFile]] = []
    held = 0
    for file in [*chosen, *others]:
        if not bins or held + file.size > max(cubes.target, cubes.least):
            bins.append([])
            held = 0
        bins[-1].append(file)
        held += file.size
    planned = [_planned(configuration, each, columns, "hilbert", sizes) for each in bins]
    stats = ClusteringStats(
        FilesAndBytes.of([file for file in mine if Cube.of(file)]),
        FilesAndBytes.of([file for file in files if not (_is_mine(file, order) and Cube.of(file))]),
        len({cube.id for file in mine if (cube := Cube.of(file))}),
        FilesAndBytes.of([*chosen, *others]),
        len(planned),
    )
    return Plan(tuple(planned), len(files), min(1, len(planned)), clustering=stats)


def _is_mine(file: AddFile, order: _Order) -> bool:
    """Whether a file is clustered by these columns, or not at all."""
    cube = Cube.of(file)
    return file.clustering_provider in (None, _PROVIDER) and (cube is None or order.is_of(cube))


def _cube_id(file: AddFile) -> str:
    cube = Cube.of(file)
    return "" if cube is None else cube.id


def _worth_it(files: Iterable[AddFile], cubes: CubeSizes, sizes: FileSizes) -> list[AddFile]:
    """The files of no cube in their order, then those of cubes that are too small, by cube."""
    found: dict[str, list[AddFile]] = {"": []}
    for file in in_order(files):
        found.setdefault(_cube_id(file), []).append(file)
    loose = found.pop("")
    for _, group in sorted(found.items()):
        is_small = sum(file.size for file in group) < cubes.least
        if is_small or any(has_too_many_deleted(file, sizes) for file in group):
            loose += group
    return loose


def _planned(
    configuration: TableConfiguration,
    files: Sequence[AddFile],
    columns: Sequence[tuple[str, ...]],
    curve: Curve,
    sizes: FileSizes,
) -> PlannedBin:
    task = ClusterTask(configuration, bare(files), tuple(columns), curve, sizes.target)
    tags = {
        _ID: str(new_uuid()),
        _CURVE: curve,
        **_Order.by(columns, configuration).tags,
    }
    provider = _PROVIDER if curve == "hilbert" else None
    return PlannedBin(Bin(tuple(files)), task, tags, provider)
