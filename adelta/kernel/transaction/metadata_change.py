"""Which changes of metadata leave files that were written before them as good as they were.

Names, descriptions, properties of the user's own, and the properties that only steer upkeep say
nothing about data files: a commit prepared before such a change may be replayed after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.actions.metadata import Metadata

__all__ = ["leaves_files_valid"]

_PREFIX = "delta."
_UPKEEP = frozenset(
    {
        "delta.checkpointinterval",
        "delta.checkpointpolicy",
        "delta.checkpointretentionduration",
        "delta.checkpoint.writestatsasjson",
        "delta.checkpoint.writestatsasstruct",
        "delta.deletedfileretentionduration",
        "delta.enableexpiredlogcleanup",
        "delta.enablefullretentionrollback",
        "delta.logretentionduration",
        "delta.sampleretentionduration",
        "delta.settransactionretentionduration",
        "delta.targetfilesize",
        "delta.tunefilesizesforrewrites",
    }
)


def leaves_files_valid(before: Metadata, after: Metadata) -> bool:
    """Whether files written for `before` are right for `after` too.

    Example: another checkpoint interval leaves them valid, another column does not.
    """
    return (
        before.id == after.id
        and before.schema_string == after.schema_string
        and before.partition_columns == after.partition_columns
        and before.format_provider == after.format_provider
        and _binding(before.configuration) == _binding(after.configuration)
    )


def _binding(configuration: Mapping[str, str]) -> dict[str, str]:
    folded = {key.lower(): value for key, value in configuration.items()}
    return {
        key: value
        for key, value in folded.items()
        if key.startswith(_PREFIX) and key not in _UPKEEP
    }
