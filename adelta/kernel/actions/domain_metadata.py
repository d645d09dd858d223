"""The `domainMetadata` action: named configuration with tombstones.

PROTOCOL.md, "Domain Metadata".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError

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
        """The value of a decoded `domainMetadata` action.

        Raises:
            InvalidTableError: it names no domain, or its configuration is no text.
        """
        domain, configuration = raw.get("domain"), raw.get("configuration")
        if not isinstance(domain, str) or not isinstance(configuration or "", str):
            raise InvalidTableError(
                f"a domainMetadata action configures {str(domain)[:100]!r} as "
                f"{str(configuration)[:100]!r}; both must be texts"
            )
        return cls(domain, configuration or "", bool(raw.get("removed")))

    def to_json(self) -> dict[str, Any]:
        """The action's body as the log writes it."""
        return {
            "domain": self.domain,
            "configuration": self.configuration,
            "removed": self.removed,
        }
