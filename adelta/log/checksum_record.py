"""ChecksumRecord: what is known of the checksum of a version, beside the state of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from adelta.kernel.checksum.version_checksum import VersionChecksum
    from adelta.log.opened_segment import OpenedSegment

__all__ = ["ChecksumRecord"]


@dataclass(frozen=True, slots=True)
class ChecksumRecord:
    """What is known of a version's checksum. A value: what is learnt later makes another record.

    `counted` is the checksum of the version after the first `applied` commits that the state has
    beyond its segment, where one is known; `source` is the segment whose files were counted for it,
    or None where a checksum of the log says so. `lost` says that a commit since then did not say
    enough to count on; `written`, that the log has a checksum of the version.
    """

    counted: VersionChecksum | None = None
    applied: int = 0
    source: OpenedSegment | None = None
    lost: bool = False
    written: bool = False

    def advanced(self) -> ChecksumRecord:
        """What is known of later versions by it."""
        return replace(self, written=False) if self.written else self
