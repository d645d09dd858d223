"""What a commit adds, in the numbers that `operationMetrics` gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.actions.file_actions import AddFile

__all__ = ["added_metrics"]


def added_metrics(files: Sequence[AddFile]) -> dict[str, int]:
    """Files, bytes and rows of `files`; rows as their statistics count them."""
    return {
        "numFiles": len(files),
        "numOutputBytes": sum(file.size for file in files),
        "numOutputRows": sum(_num_records(file) for file in files),
    }


def _num_records(file: AddFile) -> int:
    if not file.stats:
        return 0
    try:
        records = orjson.loads(file.stats).get("numRecords")
    except (orjson.JSONDecodeError, AttributeError):  # statistics of another writer's file
        return 0
    return records if isinstance(records, int) else 0
