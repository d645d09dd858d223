"""The `domainMetadata` action: named configuration with tombstones.

PROTOCOL.md, "Domain Metadata".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DomainMetadata"]


@dataclass(frozen=True, slots=True)
class DomainMetadata:
    """The configuration text of one domain; `removed` marks a tombstone."""

    domain: str
    configuration: str
    removed: bool = False

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> DomainMetadata:
        """The value of a decoded `domainMetadata` action."""
        return cls(
            str(raw["domain"]), str(raw.get("configuration") or ""), bool(raw.get("removed"))
        )

    def to_json(self) -> dict[str, Any]:
        """The action's body as the log writes it."""
        return {
            "domain": self.domain,
            "configuration": self.configuration,
            "removed": self.removed,
        }
