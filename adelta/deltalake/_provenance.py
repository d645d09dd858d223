"""What commits say of themselves for deltalake's histories, beside what adelta's say."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from adelta import CommitOptions
from adelta._clock import monotonic
from adelta._dataclasses import dataclass
from adelta.deltalake._protocol import protocol_of_definition
from adelta.kernel.statistics import num_records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.staged import StagedChanges

__all__ = ["DeltalakeCommit", "sizes_text"]

_BATCH_ROWS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltalakeCommit(CommitOptions):
    """Options of one operation's commits, made as the operation begins.

    Attributes:
        began: when that was.
        properties: those of a table that is defined, or defined anew, beside what the operation
            itself is given; versions of the protocol among them are followed.
        before: the protocol of the table that there is, for what may ask for a higher one; None
            where features are to have names.
        considered: the files that an optimization chooses from.
        location: the address of a table that is created.
        optimized: what each commit of an optimization is said to have done, by transaction.
    """

    began: float = field(default_factory=monotonic)
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    before: Protocol | None = None
    considered: int = 0
    location: str = ""
    optimized: dict[str, dict[str, int]] = field(default_factory=dict, hash=False, compare=False)

    def _told(self, staged: StagedChanges) -> StagedChanges:
        """The changes, with the metrics that deltalake has and that are known only here."""
        more: dict[str, object] = {}
        if self.properties and staged.metadata is not None:
            known = staged.metadata.configuration
            metadata = staged.metadata.with_configuration({**known, **self.properties})
            staged = replace(staged, metadata=metadata)
        if self.before is not None and staged.metadata is not None:
            wanted = staged.protocol or self.before
            metadata = staged.metadata
            made = protocol_of_definition(self.before, wanted, metadata, self.properties)
            if made != wanted:
                staged = replace(staged, protocol=made)
        match staged.operation:
            case "WRITE":
                more["executionTimeMs"] = round((monotonic() - self.began) * 1000)
            case "FSCK":
                more["files_removed"] = json.dumps(staged.removes.column("path").to_pylist())
            case "OPTIMIZE":
                more["filesAdded"] = sizes_text([each.size for each in staged.adds])
                more["filesRemoved"] = sizes_text(staged.removes.column("size").to_pylist())
                folders = {_folder(each.partition_values) for each in staged.adds}
                more["partitionsOptimized"] = len(folders)
                self.optimized[staged.transaction_id] = _optimized(staged, self.considered)
                more |= self.optimized[staged.transaction_id]
            case "CREATE TABLE" | "CREATE OR REPLACE TABLE":
                staged = replace(staged, parameters={**staged.parameters, **self._defined(staged)})
        return replace(staged, metrics={**staged.metrics, **more}) if more else staged

    def _defined(self, staged: StagedChanges) -> dict[str, object]:
        """The definition of a table, as deltalake has it in what a creation was asked for."""
        found: dict[str, object] = {"location": self.location}
        if staged.protocol is not None:
            found["protocol"] = _json(staged.protocol.to_json())
        if staged.metadata is not None:
            nameless = {"name": None, "description": None}
            found["metadata"] = _json({**nameless, **staged.metadata.to_json()})
        return found


def _optimized(staged: StagedChanges, considered: int) -> dict[str, int]:
    """What deltalake counts of an optimization: its batches have 8192 rows at the most."""
    removed = Counter(_folder(dict(each)) for each in _values(staged.removes))
    added = Counter(_folder(each.partition_values) for each in staged.adds)
    batches = sum(-(-(num_records(each.stats) or 1) // _BATCH_ROWS) for each in staged.adds)
    if not staged.parameters.get("zOrderBy"):
        batches = max(batches, staged.removes.num_rows)
    return {
        "numBatches": batches,
        "totalConsideredFiles": considered,
        "totalFilesSkipped": max(0, considered - staged.removes.num_rows),
        "maxBinSpanFiles": max((removed[each] - added[each] + 1 for each in removed), default=0),
    }


def _folder(partition: Mapping[str, str | None]) -> tuple[tuple[str, str | None], ...]:
    return tuple(sorted(partition.items()))


def _values(removes: pa.Table) -> list[list[tuple[str, str | None]]]:
    found: list[Any] = removes.column("partition_values").to_pylist()
    return found


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


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
