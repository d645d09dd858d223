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
_LACKING = "#"


def decode(text: str) -> bytes:
    """The bytes that `text` stands for: four for every five characters.

    Some writers do not pad: their last group begins with a ``#`` for every byte that it lacks,
    which no whole group can, for it would be more than 32 bits.

    Raises:
        InvalidTableError: the text is not Z85.
    """
    if len(text) % _CHARACTERS:
        raise InvalidTableError(f"{text[:40]!r} is not Base85: it has {len(text)} characters")
    tail = text[-_CHARACTERS:]
    lacking = len(tail) - len(tail.lstrip(_LACKING))
    if lacking >= _BYTES:
        raise InvalidTableError(f"{text[:40]!r} is not Base85: it ends in {tail!r}")
    whole = text[: len(text) - len(tail)] + "0" * lacking + tail[lacking:]
    words = []
    for at in range(0, len(whole), _CHARACTERS):
        word = 0
        for character in whole[at : at + _CHARACTERS]:
            value = _VALUES.get(character)
            if value is None:
                raise InvalidTableError(f"{text[:40]!r} is not Base85: it has {character!r}")
            word = word * len(_ALPHABET) + value
        words.append(word & 0xFFFFFFFF)  # Spark takes the low bits of a group that is too great
    data = struct.pack(f">{len(words)}I", *words)
    return data[: len(data) - _BYTES] + data[len(data) - _BYTES + lacking :] if lacking else data


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
