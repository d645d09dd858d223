"""What commits say of themselves for deltalake's histories, beside what adelta's say."""

from __future__ import annotations

import json
from dataclasses import field, replace
from typing import TYPE_CHECKING

from adelta import CommitOptions
from adelta._clock import monotonic
from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.staged import StagedChanges

__all__ = ["DeltalakeCommit", "sizes_text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltalakeCommit(CommitOptions):
    """Options of one operation's commits, made as the operation begins."""

    began: float = field(default_factory=monotonic)

    def _told(self, staged: StagedChanges) -> StagedChanges:
        """The changes, with the metrics that deltalake has and that are known only here."""
        more: dict[str, object] = {}
        match staged.operation:
            case "WRITE":
                more["executionTimeMs"] = round((monotonic() - self.began) * 1000)
            case "FSCK":
                more["files_removed"] = json.dumps(staged.removes.column("path").to_pylist())
            case "OPTIMIZE":
                more["filesAdded"] = sizes_text([each.size for each in staged.adds])
                more["filesRemoved"] = sizes_text(staged.removes.column("size").to_pylist())
                folders = {tuple(sorted(each.partition_values.items())) for each in staged.adds}
                more["partitionsOptimized"] = len(folders)
        return replace(staged, metrics={**staged.metrics, **more}) if more else staged


def sizes_text(sizes: Sequence[int | None]) -> str:
    """The sizes of files, as deltalake sums them up."""
    known = [size or 0 for size in sizes]
    return json.dumps(
        {
            "avg": sum(known) / len(known) if known else 0.0,
            "max": max(known, default=0),
            "min": min(known, default=0),
            "totalFiles": len(known),
            "totalSize": sum(known),
        },
        separators=(",", ":"),
    )
