"""The actions that only V2 checkpoints hold (PROTOCOL.md, "V2 Spec")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
        """The value of a decoded `checkpointMetadata` action."""
        return cls(int(raw["version"]), dict(raw.get("tags") or {}))

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
        """The value of a decoded `sidecar` action."""
        return cls(
            str(raw["path"]),
            int(raw.get("sizeInBytes") or 0),
            int(raw.get("modificationTime") or 0),
            dict(raw.get("tags") or {}),
        )

    def to_json(self) -> dict[str, Any]:
        """The action's body as the log writes it."""
        return {
            "path": self.path,
            "sizeInBytes": self.size_in_bytes,
            "modificationTime": self.modification_time,
            "tags": dict(self.tags),
        }
