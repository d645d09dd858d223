"""Z85, the Base85 of deletion vectors: four bytes as five printable characters.

The format is that of rfc.zeromq.org/spec/32.

PROTOCOL.md calls it Base85 and takes it for UUIDs in file names and for inline vectors.
"""

from __future__ import annotations

import struct

from adelta.errors import InvalidTableError

__all__ = ["decode", "encode"]

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
_CHARACTERS = 5
_BYTES = 4


def decode(text: str) -> bytes:
    """The bytes that `text` stands for: four for every five characters.

    Raises:
        InvalidTableError: the text is not Z85.
    """
    if len(text) % _CHARACTERS:
        raise InvalidTableError(f"{text[:40]!r} is not Base85: it has {len(text)} characters")
    words = []
    for at in range(0, len(text), _CHARACTERS):
        word = 0
        for character in text[at : at + _CHARACTERS]:
            value = _VALUES.get(character)
            if value is None:
                raise InvalidTableError(f"{text[:40]!r} is not Base85: it has {character!r}")
            word = word * len(_ALPHABET) + value
        words.append(word & 0xFFFFFFFF)  # Spark writes and reads groups that overflow
    return struct.pack(f">{len(words)}I", *words)


def encode(data: bytes) -> str:
    """`data`, padded with zeros to whole words, as text."""
    padded = data + b"\0" * (-len(data) % _BYTES)
    characters: list[str] = []
    for (word,) in struct.iter_unpack(">I", padded):
        five = []
        for _ in range(_CHARACTERS):
            word, value = divmod(word, len(_ALPHABET))
            five.append(_ALPHABET[value])
        characters.extend(reversed(five))
    return "".join(characters)
