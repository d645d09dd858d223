"""Shapes as well-known binary (WKB), and Arrow fields that are marked as holding them."""

from __future__ import annotations

import struct
from typing import Any

import orjson
import pyarrow as pa

__all__ = ["WkbType", "collection", "line", "marked", "point", "polygon"]


def point(*coordinates: float, kind: int = 1, order: str = "<") -> bytes:
    """A point; `kind` is 1001, 2001 or 3001 for one with a height, a measure or both."""
    head = struct.pack(f"{order}BI", order == "<", kind)
    return head + struct.pack(f"{order}{len(coordinates)}d", *coordinates)


def line(*points: tuple[float, float]) -> bytes:
    """A line string on a plane."""
    ends = b"".join(struct.pack("<2d", *each) for each in points)
    return struct.pack("<BII", 1, 2, len(points)) + ends


def polygon(*points: tuple[float, float]) -> bytes:
    """A polygon on a plane with one ring."""
    return struct.pack("<BII", 1, 3, 1) + line(*points)[5:]


def collection(*parts: bytes) -> bytes:
    """A collection of other shapes."""
    return struct.pack("<BII", 1, 7, len(parts)) + b"".join(parts)


def marked(name: str, **told: Any) -> pa.Field[Any]:
    """A binary field under GeoArrow's name; `told` are `crs`, `crs_type` and `edges`."""
    metadata: dict[bytes | str, bytes | str] = {
        "ARROW:extension:name": "geoarrow.wkb",
        "ARROW:extension:metadata": orjson.dumps(told),
    }
    return pa.field(name, pa.binary(), metadata=metadata)


class WkbType(pa.ExtensionType):
    """GeoArrow's extension type, as the packages that know it have it."""

    def __init__(self, **told: Any) -> None:
        self._told = told
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return orjson.dumps(self._told)

    @classmethod
    def __arrow_ext_deserialize__(cls, _storage: object, serialized: bytes) -> WkbType:
        return cls(**orjson.loads(serialized))
