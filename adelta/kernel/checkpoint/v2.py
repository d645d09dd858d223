"""The manifest of a V2 checkpoint: everything but file actions, and which sidecars hold these.

It is a JSON file with an action a line, or Parquet (PROTOCOL.md, "V2 Spec").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from adelta._arrow_values import table_of
from adelta._dataclasses import dataclass
from adelta.kernel.actions.json import encode_commit
from adelta.kernel.actions.sidecar import CheckpointMetadata, Sidecar
from adelta.kernel.checkpoint.classic import singleton_bodies
from adelta.kernel.checkpoint.schema import manifest_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.json import Action
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction

__all__ = ["V2Manifest"]

_RECORDED = 30  # actions, or sidecars, that the hint repeats at most
_RECORDED_BYTES = 64 * 1024  # of actions


@dataclass(frozen=True, slots=True)
class V2Manifest:
    """What the manifest says. `num_file_actions` are in the `sidecars`, `num_adds` of them adds.

    Where these are not known, None, the manifest leaves them out.
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    transactions: tuple[SetTransaction, ...]
    domains: tuple[DomainMetadata, ...]
    sidecars: tuple[Sidecar, ...]
    num_file_actions: int | None = None
    num_adds: int | None = None

    @property
    def sidecar_bytes(self) -> int:
        """Bytes in the sidecars."""
        return sum(sidecar.size_in_bytes for sidecar in self.sidecars)

    @property
    def checkpoint_metadata(self) -> CheckpointMetadata:
        """The action that makes it a V2 checkpoint."""
        tags = {
            "sidecarNumActions": self.num_file_actions,
            "sidecarSizeInBytes": self.sidecar_bytes,
            "numOfAddFiles": self.num_adds,
        }
        known = {name: str(value) for name, value in tags.items() if value is not None}
        return CheckpointMetadata(self.version, known)

    @property
    def actions(self) -> tuple[Action, ...]:
        """Every line of the manifest."""
        live = tuple(domain for domain in self.domains if not domain.removed)
        others: tuple[Action, ...] = (self.protocol, self.metadata, *self.transactions, *live)
        return (self.checkpoint_metadata, *self.sidecars, *others)

    def to_json(self) -> bytes:
        """The manifest as a JSON file."""
        return encode_commit(self.actions)

    def to_table(self) -> pa.Table:
        """The manifest as rows of `manifest_schema`."""
        tagged: list[dict[str, Any]] = [
            {kind: body | {"tags": list(body["tags"].items())}}
            for kind, body in (
                ("checkpointMetadata", self.checkpoint_metadata.to_json()),
                *(("sidecar", sidecar.to_json()) for sidecar in self.sidecars),
            )
        ]
        singletons = singleton_bodies(self.protocol, self.metadata, self.transactions, self.domains)
        return table_of([*tagged, *singletons], manifest_schema())

    def recorded(self, size: int, modification_time: int) -> dict[str, Any]:
        """What the hint records of a manifest of `size` bytes, beside its path."""
        body: dict[str, Any] = {"sizeInBytes": size, "modificationTime": modification_time}
        others = [a for a in self.actions if not isinstance(a, Sidecar)]
        content = encode_commit(others) if len(others) <= _RECORDED else b""
        if 0 < len(content) <= _RECORDED_BYTES:  # who opens the table reads it all the same
            body["nonFileActions"] = [orjson.loads(line) for line in content.splitlines()]
        if len(self.sidecars) <= _RECORDED:
            body["sidecarFiles"] = [sidecar.to_json() for sidecar in self.sidecars]
        return body
