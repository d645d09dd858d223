"""The actions that only V2 checkpoints hold (PROTOCOL.md, "V2 Spec")."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError
from adelta.kernel.actions.commit_info import is_time

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CheckpointMetadata", "Sidecar"]


@dataclass(frozen=True, slots=True)
class CheckpointMetadata:
    """The version that a V2 checkpoint holds, and its tags."""

    version: int
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> CheckpointMetadata:
        """The value of a decoded `checkpointMetadata` action.

        Raises:
            InvalidTableError: it names no version.
        """
        version = raw.get("version")
        if type(version) is not int:
            raise InvalidTableError(
                f"a checkpointMetadata action has the version {str(version)[:100]!r}; it must be a "
                "whole number"
            )
        return cls(version, _tags(raw))

    def to_json(self) -> dict[str, Any]:
        """The action's body as the log writes it."""
        return {"version": self.version, "tags": dict(self.tags)}


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A file of a V2 checkpoint's file actions; `path` as it stands in the action."""

    path: str
    size_in_bytes: int
    modification_time: int
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Sidecar:
        """The value of a decoded `sidecar` action.

        Raises:
            InvalidTableError: its path is no text, or its size no whole number.
        """
        path, size = raw.get("path"), raw.get("sizeInBytes") or 0
        if not isinstance(path, str) or type(size) is not int or size < 0:
            raise InvalidTableError(
                f"a sidecar action has the path {str(path)[:100]!r} and the size "
                f"{str(size)[:100]!r}; it is damaged"
            )
        modified = raw.get("modificationTime")
        return cls(path, size, modified if is_time(modified) else 0, _tags(raw))

    def to_json(self) -> dict[str, Any]:
        """The action's body as the log writes it."""
        return {
            "path": self.path,
            "sizeInBytes": self.size_in_bytes,
            "modificationTime": self.modification_time,
            "tags": dict(self.tags),
        }


def _tags(raw: Mapping[str, Any]) -> dict[str, str]:
    tags = raw.get("tags")
    return dict(tags) if isinstance(tags, dict) else {}
