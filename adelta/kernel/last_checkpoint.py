"""The `_last_checkpoint` hint: value, codec and checksum (PROTOCOL.md, "Last Checkpoint File").

A hint only: whatever is wrong with it costs a listing and is never an error, so `decode` answers
None for a hint that cannot be trusted.
"""

from __future__ import annotations

import json
import re
from dataclasses import field
from typing import TYPE_CHECKING, Any

import orjson

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["MAX_BYTES", "LastCheckpoint", "canonical_form", "checksum", "decode", "encode"]

MAX_BYTES = 1 << 20
"""What a hint may have: one that is longer is none."""

_CHECKSUM = "checksum"
_LONGEST_FORM = 8 * MAX_BYTES  # characters of the canonical form: each leaf repeats the way to it


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """Which checkpoint is probably the newest: `parts` is set for a multi-part one.

    `size` counts its actions, `size_in_bytes` its bytes. `v2_path` is the file name of a V2
    checkpoint, where the writer recorded it, and `v2_content` what else it recorded of that.
    """

    version: int
    size: int
    parts: int | None = None
    size_in_bytes: int | None = None
    num_of_add_files: int | None = None
    v2_path: str | None = None
    v2_content: Mapping[str, Any] = field(default_factory=dict, hash=False)


class _Number(str):
    """A JSON number, kept as it was written."""

    __slots__ = ()


def encode(hint: LastCheckpoint) -> bytes:
    """The file's content, with its checksum; the fields that Spark expects first come first."""
    body: dict[str, Any] = {"version": hint.version, "size": hint.size}
    if hint.parts is not None:
        body["parts"] = hint.parts
    if hint.size_in_bytes is not None:
        body["sizeInBytes"] = hint.size_in_bytes
    if hint.num_of_add_files is not None:
        body["numOfAddFiles"] = hint.num_of_add_files
    if hint.v2_path is not None:
        body["v2Checkpoint"] = {"path": hint.v2_path, **hint.v2_content}
    body[_CHECKSUM] = checksum(orjson.dumps(body))
    return orjson.dumps(body)


def decode(data: bytes) -> LastCheckpoint | None:
    """The hint that `data` holds; None where it is damaged, too long or makes no sense."""
    if len(data) > MAX_BYTES:
        return None
    try:
        pairs = _parse(data)
        body = orjson.loads(data)
    except (ValueError, RecursionError):
        return None
    if pairs is None or not isinstance(body, dict):
        return None
    stored = body.get(_CHECKSUM)
    if stored is not None and stored != _digest(pairs):
        return None
    version, parts = _optional(body.get("version")), _optional(body.get("parts"))
    if version is None or (body.get("parts") is not None and not parts):
        return None
    recorded = body.get("v2Checkpoint")
    v2 = dict(recorded) if isinstance(recorded, dict) else {}
    v2_path = v2.pop("path", None)
    return LastCheckpoint(
        version=version,
        size=_optional(body.get("size")) or 0,
        parts=parts,
        size_in_bytes=_optional(body.get("sizeInBytes")),
        num_of_add_files=_optional(body.get("numOfAddFiles")),
        v2_path=v2_path if isinstance(v2_path, str) else None,
        v2_content=v2 if isinstance(v2_path, str) else {},
    )


def _optional(value: object) -> int | None:
    """A whole number from 0 up; None for anything else."""
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if whole and isinstance(value, int) else None


def checksum(data: bytes) -> str:
    """MD5 of the canonical form of a JSON text, as 32 hexadecimal digits.

    Raises:
        ValueError: the text is not JSON, a key occurs twice in one object, or the form is too long.
    """
    pairs = _parse(data)
    return _digest([] if pairs is None else pairs)


def canonical_form(data: bytes) -> str:
    """The canonical form of a JSON text that the checksum covers.

    Example: ``{"k1":"v 1","checksum":"x","k3":[7]}`` becomes ``"k1"="v%201","k3"+0=7``.

    Raises:
        ValueError: the text is not JSON, a key occurs twice in one object, or the form is too long.
    """
    return ",".join(_sorted(_load(data)))


def _digest(pairs: list[str]) -> str:
    import hashlib

    return hashlib.md5(",".join(pairs).encode(), usedforsecurity=False).hexdigest()


def _parse(data: bytes) -> list[str] | None:
    """The sorted leaf pairs of a JSON object, or None where it is something else."""
    value = _load(data)
    if not isinstance(value, dict):
        return None
    return _sorted(value)


def _sorted(value: object) -> list[str]:
    """Leaf pairs in the order of their paths' bytes, so that index 10 comes before index 2."""
    pairs: list[tuple[str, str]] = []
    length = 0
    for path, text in _leaves(value, ""):
        length += len(path) + len(text)
        if length > _LONGEST_FORM:
            raise ValueError("the canonical form is too long")
        pairs.append((path, text))
    pairs.sort(key=lambda pair: pair[0].encode())
    return [f"{path}={text}" if path else text for path, text in pairs]


def _load(data: bytes) -> object:
    # the standard decoder, because it alone hands over numbers as written and duplicate keys
    return json.loads(
        data,
        parse_int=_Number,
        parse_float=_Number,
        parse_constant=_Number,
        object_pairs_hook=_object,
    )


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a key occurs twice")
    return unique


def _leaves(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if not path and key == _CHECKSUM:
                continue
            yield from _leaves(inner, _join(path, _quoted(key)))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, _join(path, str(index)))
    else:
        yield path, _scalar(value)


def _join(path: str, segment: str) -> str:
    return f"{path}+{segment}" if path else segment


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, _Number):
        return str(value)
    return _quoted(str(value))


_RESERVED = re.compile(rb"[^A-Za-z0-9\-._~]")


def _quoted(text: str) -> str:
    encoded = _RESERVED.sub(lambda m: b"%%%02X" % m[0][0], text.encode())
    return f'"{encoded.decode()}"'
