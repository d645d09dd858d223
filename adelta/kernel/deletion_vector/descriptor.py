"""Where a deletion vector is: inline, in a file of the table, or at an absolute path.

PROTOCOL.md, "Deletion Vector Descriptor Schema".
"""

from __future__ import annotations

import uuid
from typing import Protocol

from adelta.errors import InvalidTableError
from adelta.kernel.deletion_vector import z85

__all__ = ["Descriptor", "encode_relative", "inline_bytes", "vector_path"]

_UUID_CHARACTERS = 20


class Descriptor(Protocol):
    """What is needed of a descriptor."""

    @property
    def storage_type(self) -> str:
        """``u``, ``i`` or ``p``."""
        ...

    @property
    def path_or_inline_dv(self) -> str:
        """The encoded UUID, the encoded vector, or the path."""
        ...

    @property
    def size_in_bytes(self) -> int:
        """The size of the bitmap's bytes."""
        ...


def vector_path(descriptor: Descriptor) -> str:
    """The path of the file that holds the vector, percent-encoded as in a file action.

    Example: ``ab^-aqEH.-t@S}K{vb[*k^`` is
    ``ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin``.

    Raises:
        InvalidTableError: the descriptor names no file.
    """
    text = descriptor.path_or_inline_dv
    if descriptor.storage_type == "p":
        return text
    if descriptor.storage_type != "u" or len(text) < _UUID_CHARACTERS:
        raise InvalidTableError(
            f"a deletion vector of the storage type {descriptor.storage_type!r} with the path "
            f"{text[:60]!r} is none that the protocol knows"
        )
    prefix, encoded = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
    name = f"deletion_vector_{uuid.UUID(bytes=z85.decode(encoded))}.bin"
    return f"{prefix}/{name}" if prefix else name


def encode_relative(unique: uuid.UUID, prefix: str = "") -> str:
    """The `pathOrInlineDv` of the file that `vector_path` finds for this UUID."""
    return prefix + z85.encode(unique.bytes)


def inline_bytes(descriptor: Descriptor) -> bytes:
    """The bitmap's bytes of an inline vector.

    Raises:
        InvalidTableError: the text is not Base85, or holds fewer bytes than it should.
    """
    data = z85.decode(descriptor.path_or_inline_dv)
    size = descriptor.size_in_bytes
    if not 0 <= size <= len(data):
        raise InvalidTableError(
            f"an inline deletion vector of {size} bytes has a text that holds {len(data)}"
        )
    return data[:size]
