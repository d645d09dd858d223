"""A proxy before a real S3 server that changes what passes through it, and adds what it saw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.storage.faulty_proxy import FaultyProxy

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TamperingProxy", "flip", "header", "with_header", "without_header"]


class TamperingProxy(FaultyProxy):
    """Forwards requests with what `sending` and `answering` make of them.

    Attributes:
        sending: what is sent for a request's head and body.
        answering: what is answered for the request's head, and the head and body of the answer.
        heads: the heads of all requests.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.sending: Callable[[bytes, bytes], bytes] = lambda _head, body: body
        self.answering: Callable[[bytes, bytes, bytes], tuple[bytes, bytes]]
        self.answering = lambda _request, head, body: (head, body)
        self.heads: list[bytes] = []

    async def _forward(self, head: bytes, body: bytes, method: str) -> bytes:
        self.heads.append(head)
        answer = await super()._forward(head, self.sending(head, body), method)
        first, _, rest = answer.partition(b"\r\n\r\n")
        changed, rest = self.answering(head, first, rest)
        return changed + b"\r\n\r\n" + rest


def flip(body: bytes, at: int = 0) -> bytes:
    """The body with one bit changed."""
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


def header(head: bytes, name: str) -> str:
    """What the header says; nothing where there is none."""
    for line in head.split(b"\r\n")[1:]:
        found, _, value = line.decode().partition(":")
        if found.strip().lower() == name:
            return value.strip()
    return ""


def with_header(head: bytes, name: str, value: str) -> bytes:
    """The head with this header, and no other of its name."""
    return b"\r\n".join([without_header(head, name), f"{name}: {value}".encode()])


def without_header(head: bytes, name: str) -> bytes:
    """The head without headers of this name."""
    lines = head.split(b"\r\n")
    return b"\r\n".join(x for x in lines if not x.lower().startswith(f"{name}:".encode()))
