"""What a commit adds, in the numbers that `operationMetrics` gives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from adelta.kernel.statistics import num_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.write.deletion_vectors import VectorsWritten

__all__ = ["added_metrics", "vector_metrics"]

_NAME = "numRecords"
_COUNT = re.compile(rf'{{"{_NAME}":([0-9]{{1,18}})[,}}]')


def added_metrics(files: Sequence[AddFile]) -> dict[str, int]:
    """Files, bytes and rows of `files`; rows as their statistics count them."""
    return {
        "numFiles": len(files),
        "numOutputBytes": sum(file.size for file in files),
        "numOutputRows": sum(_rows(file.stats) for file in files),
    }


def _rows(stats: str | None) -> int:
    """The rows that statistics count; the rest of most need not be parsed for that."""
    told = _COUNT.match(stats or "")
    if stats is None or told is None or stats.find(_NAME, told.end()) >= 0:
        return num_records(stats) or 0
    return int(told[1])


def vector_metrics(written: VectorsWritten) -> dict[str, int]:
    """Deletion vectors put on files and taken off them, and files that lost their last row.

    A vector in place of another one counts as added, as removed and as updated.
    """
    kept = {file.path for file in written.replacements}
    gone = [file for file in written.replaced if file.path not in kept]
    old = [file for file in written.replaced if file.deletion_vector is not None]
    return {
        "numDeletionVectorsAdded": len(written.replacements),
        "numDeletionVectorsRemoved": len(old),
        "numDeletionVectorsUpdated": sum(file.path in kept for file in old),
        "numRemovedFiles": len(gone),
        "numRemovedBytes": sum(file.size for file in gone),
    }
