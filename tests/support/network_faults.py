"""What may go wrong between a client and an S3 server, one kind after the other.

Each is an act of the `FaultyProxy`: what becomes of a request, and whether its connection goes on.
"""

from __future__ import annotations

import asyncio
import random
import re
import socket
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.storage.faulty_proxy import Act, Exchange

__all__ = ["LOSES_PATIENCE", "NETWORK_FAULTS", "PARTITIONS", "NetworkFault", "Weather", "is_commit"]

LOSES_PATIENCE = 1.0
"""Seconds after which a client is to give up waiting for bytes."""

_ENDLESS = "endless"
_CHANCE = random.Random(5)
_CONTENT_LENGTH = re.compile(rb"(?i)(content-length: *)(\d+)")
_CONTENT_RANGE = re.compile(rb"(?i)(content-range: *bytes )(\d+)-(\d+)")


@dataclass(frozen=True)
class NetworkFault:
    """One kind of fault: what it does to the requests that it `meets`, a `share` of them.

    It goes on with each request for what an answer of its own has named: `follows` knows it. One
    that `ages` may have a reader take an older version for the newest, which no client can notice.
    """

    act: Act
    meets: Callable[[str, str], bool] = lambda _method, _target: True
    share: float = 0.12
    follows: str = ""
    ages: bool = False


@dataclass
class Weather:
    """Chooses requests by chance for faults, as `FaultyProxy.choose`; `met` counts them."""

    faults: list[NetworkFault]
    seed: int = 1
    met: int = 0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def __call__(self, method: str, target: str) -> Act | None:
        fault = self._random.choice(self.faults)
        for each in self.faults:
            if each.follows and each.follows in target:
                return each.act
        if self._random.random() >= fault.share or not fault.meets(method, target):
            return None
        self.met += 1
        return fault.act


# ------------------------------------------------------------------------------- which requests


def _is_listing(method: str, target: str) -> bool:
    return method == "GET" and "list-type=2" in target


def _is_get(method: str, target: str) -> bool:
    return method == "GET" and "list-type=2" not in target


def _is_put(method: str, _target: str) -> bool:
    return method == "PUT"


def is_commit(method: str, target: str) -> bool:
    """Whether the request puts a commit into a log."""
    return method == "PUT" and _names_commit(target)


def _names_commit(target: str) -> bool:
    return re.search(r"/_delta_log/\d{20}\.json", target) is not None


def _gets_commit(method: str, target: str) -> bool:
    return _is_get(method, target) and _names_commit(target)


def _gets_other(method: str, target: str) -> bool:
    return _is_get(method, target) and not _names_commit(target)


# ------------------------------------------------------------------------------- the connection


def _cut(exchange: Exchange) -> bool:
    """End the connection by a reset, behind what has been sent."""
    end = exchange.writer.get_extra_info("socket")
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


async def _refused(exchange: Exchange) -> bool:
    exchange.later(lambda: exchange.proxy.refuse(0.1), 0)
    return _cut(exchange)


async def _reset_before(exchange: Exchange) -> bool:
    return _cut(exchange)


async def _answer_lost(exchange: Exchange) -> bool:
    await exchange.forward()
    return _cut(exchange)


async def _reset_inside(exchange: Exchange) -> bool:
    answer = await exchange.forward()
    exchange.send(answer[: len(answer) * 2 // 3])
    await exchange.writer.drain()
    await asyncio.sleep(0.02)
    return _cut(exchange)


async def _ended_inside(exchange: Exchange) -> bool:
    """The connection ends in order, in the midst of the body whose length was told."""
    answer = await exchange.forward()
    exchange.send(answer[: len(answer) - 7])
    exchange.writer.write_eof()
    await exchange.writer.drain()
    await asyncio.sleep(0.02)
    return False


async def _half_closed(exchange: Exchange) -> bool:
    """The answer is whole, and then the server takes requests and answers none of them."""
    exchange.send(await exchange.forward())
    exchange.writer.write_eof()
    await exchange.writer.drain()
    await asyncio.sleep(0.3)
    return False


async def _closed_while_idle(exchange: Exchange) -> bool:
    """The answer is whole, and the connection, which was to be kept, ends without a word."""
    exchange.send(await exchange.forward())
    await exchange.writer.drain()
    await asyncio.sleep(0.01)
    return False


# -------------------------------------------------------------------------------------- the time


async def _too_late(exchange: Exchange) -> bool:
    answer = await exchange.forward()
    await asyncio.sleep(LOSES_PATIENCE * 1.3)
    exchange.send(answer)
    return True


async def _never(exchange: Exchange) -> bool:
    await asyncio.sleep(LOSES_PATIENCE * 1.3)
    return False


async def _heard_but_silent(exchange: Exchange) -> bool:
    """The request is carried out, and no answer comes back."""
    await exchange.forward()
    return await _never(exchange)


async def _slow(exchange: Exchange) -> bool:
    """Answers come in another order than the requests went."""
    await asyncio.sleep(_CHANCE.random() * 0.2)
    answer = await exchange.forward()
    await asyncio.sleep(_CHANCE.random() * 0.2)
    exchange.send(answer)
    return True


async def _drips(exchange: Exchange) -> bool:
    answer = await exchange.forward()
    step = max(1, len(answer) // 8)
    for at in range(0, len(answer), step):
        exchange.send(answer[at : at + step])
        await exchange.writer.drain()
        await asyncio.sleep(0.03)
    return True


async def _stalls(exchange: Exchange) -> bool:
    """The first bytes come, and then none for longer than a client waits."""
    answer = await exchange.forward()
    exchange.send(answer[: len(answer) // 2])
    await exchange.writer.drain()
    await asyncio.sleep(LOSES_PATIENCE * 1.3)
    return False


async def _applied_late(exchange: Exchange) -> bool:
    """The client is told that the connection broke, and the request arrives after that."""
    exchange.later(exchange.forward, 0.15)
    return _cut(exchange)


# ------------------------------------------------------------------------------------ repetitions


async def _twice(exchange: Exchange) -> bool:
    """The request is delivered twice, and the second answer is the one that comes back."""
    await exchange.forward()
    exchange.send(await exchange.forward())
    return True


async def _twice_later(exchange: Exchange) -> bool:
    """The request is delivered once more, after its answer."""
    exchange.send(await exchange.forward())
    exchange.later(exchange.forward, 0.1)
    return True


# ------------------------------------------------------------------------------------ the answers


def _answers(status: int, code: str, *headers: str, applied: bool = False) -> Act:
    async def act(exchange: Exchange) -> bool:
        if applied:
            await exchange.forward()
        body = f"<Error><Code>{code}</Code><Message>by chance</Message></Error>" if code else ""
        exchange.send_answer(status, body.encode(), *headers)
        return True

    return act


async def _to_itself(exchange: Exchange) -> bool:
    here = f"http://{exchange.proxy.endpoint.removeprefix('http://')}{exchange.target}"
    return await _answers(307, "TemporaryRedirect", f"location: {here}")(exchange)


async def _garbage(exchange: Exchange) -> bool:
    exchange.send(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
    return False


async def _continues(exchange: Exchange) -> bool:
    """Interim answers that nobody asked for, before the real one."""
    exchange.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
    exchange.send(await exchange.forward())
    return True


async def _only_continues(exchange: Exchange) -> bool:
    exchange.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    await exchange.writer.drain()
    await asyncio.sleep(0.02)
    return _cut(exchange)


async def _garbage_listing(exchange: Exchange) -> bool:
    exchange.send_answer(200, b"<ListBucketResult><Contents><Key>\xff\x00&&</Key>")
    return True


async def _html(exchange: Exchange) -> bool:
    exchange.send_answer(200, b"<html><body>Please sign in</body></html>")
    return True


async def _repeats_its_token(exchange: Exchange) -> bool:
    """Every page says that there are more, and names the same place to go on."""
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{_ENDLESS}"
    more = f"{more}</NextContinuationToken>"
    if _ENDLESS in exchange.target:
        exchange.send_answer(200, f"<ListBucketResult>{more}</ListBucketResult>".encode())
        return True
    head, _, body = (await exchange.forward()).partition(b"\r\n\r\n")
    body = body.replace(b"<IsTruncated>false</IsTruncated>", more.encode())
    exchange.send(_with_length(head, len(body)) + b"\r\n\r\n" + body)
    return True


# -------------------------------------------------------------------------------------- the bytes


def _with_length(head: bytes, length: int) -> bytes:
    chunked = re.compile(rb"(?i)\r\ntransfer-encoding: *chunked")
    if chunked.search(head):
        return chunked.sub(b"\r\ncontent-length: %d" % length, head)
    return _CONTENT_LENGTH.sub(rb"\g<1>%d" % length, head)


async def _shorter(exchange: Exchange) -> bool:
    """The body is cut short, and the answer's head agrees with that."""
    head, _, body = (await exchange.forward()).partition(b"\r\n\r\n")
    if _CONTENT_LENGTH.search(head) and len(body) > 10:
        body = body[:-10]
        head = _with_length(head, len(body))
    exchange.send(head + b"\r\n\r\n" + body)
    return True


async def _longer(exchange: Exchange) -> bool:
    """The head states more bytes than there are."""
    head, gap, body = (await exchange.forward()).partition(b"\r\n\r\n")
    exchange.send(_CONTENT_LENGTH.sub(rb"\g<1>%d" % (len(body) + 1000), head) + gap + body)
    await exchange.writer.drain()
    await asyncio.sleep(0.02)
    return False


async def _elsewhere(exchange: Exchange) -> bool:
    """Another range than was asked for."""
    answer = await exchange.forward()
    shifted = _CONTENT_RANGE.sub(
        lambda m: b"%s%d-%d" % (m[1], int(m[2]) + 1, int(m[3]) + 1), answer, count=1
    )
    exchange.send(shifted)
    return True


async def _flipped(exchange: Exchange) -> bool:
    """One bit of the body is another."""
    head, gap, body = (await exchange.forward()).partition(b"\r\n\r\n")
    exchange.send(head + gap + _with_flipped_bit(body))
    return True


async def _flipped_on_its_way(exchange: Exchange) -> bool:
    """One bit of what is put is another."""
    exchange.send(await exchange.forward(_with_flipped_bit(exchange.body)))
    return True


def _with_flipped_bit(data: bytes) -> bytes:
    if not data:
        return data
    at = _CHANCE.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << _CHANCE.randrange(8))]) + data[at + 1 :]


NETWORK_FAULTS: Mapping[str, NetworkFault] = {
    "connections are refused": NetworkFault(_refused, share=0.05),
    "reset before the request": NetworkFault(_reset_before),
    "reset after the request": NetworkFault(_answer_lost),
    "every answer to a commit is lost": NetworkFault(_answer_lost, is_commit, share=0.7),
    "reset inside the answer": NetworkFault(_reset_inside),
    "end inside the answer": NetworkFault(_ended_inside),
    "half-closed connection": NetworkFault(_half_closed),
    "connection closed while idle": NetworkFault(_closed_while_idle, share=0.5),
    "answer too late": NetworkFault(_too_late, share=0.05),
    "no answer": NetworkFault(_never, share=0.05),
    "slow answers out of order": NetworkFault(_slow, share=0.4),
    "answer in drops": NetworkFault(_drips, share=0.2),
    "answer stalls": NetworkFault(_stalls, share=0.05),
    "put applied after the client gave up": NetworkFault(_applied_late, _is_put, share=0.3),
    "request delivered twice": NetworkFault(_twice, share=0.3),
    "request delivered again later": NetworkFault(_twice_later, share=0.3),
    "500": NetworkFault(_answers(500, "InternalError")),
    "500 to what was done": NetworkFault(_answers(500, "InternalError", applied=True)),
    "503": NetworkFault(_answers(503, "SlowDown", "retry-after: 0")),
    "429": NetworkFault(_answers(429, "TooManyRequests")),
    "408 in disguise": NetworkFault(_answers(400, "RequestTimeout")),
    "clock skew": NetworkFault(_answers(403, "RequestTimeTooSkewed"), share=0.05),
    "404 of a commit that is there": NetworkFault(
        _answers(404, "NoSuchKey"), _gets_commit, share=0.1, ages=True
    ),
    "404 of what is there": NetworkFault(_answers(404, "NoSuchKey"), _gets_other, share=0.3),
    "412 to a put that won": NetworkFault(
        _answers(412, "PreconditionFailed", applied=True), is_commit, share=0.5
    ),
    "409 to a put": NetworkFault(_answers(409, "ConditionalRequestConflict"), _is_put),
    "200 with an error": NetworkFault(
        _answers(200, "InternalError"), lambda m, t: m == "POST" or _is_listing(m, t), share=0.3
    ),
    "200 without a body": NetworkFault(_answers(200, ""), lambda m, _: m in ("GET", "POST")),
    "garbage in a listing": NetworkFault(_garbage_listing, _is_listing, share=0.3),
    "a web page": NetworkFault(_html, _is_listing, share=0.3),
    "a listing without an end": NetworkFault(
        _repeats_its_token, _is_listing, share=0.3, follows=f"continuation-token={_ENDLESS}"
    ),
    "redirected to itself": NetworkFault(_to_itself),
    "not HTTP": NetworkFault(_garbage),
    "interim answers": NetworkFault(_continues, share=0.5),
    "an interim answer alone": NetworkFault(_only_continues),
    "another range": NetworkFault(_elsewhere, _is_get, share=0.3),
    "length too large": NetworkFault(_longer, _is_get),
    "length that agrees with a short body": NetworkFault(_shorter, _is_get),
    "a flipped bit in an answer": NetworkFault(_flipped, _is_get),
    "a flipped bit in a put": NetworkFault(_flipped_on_its_way, _is_put),
}
"""Every kind of fault by its name."""

PARTITIONS: Mapping[str, Act] = {
    "no answer gets back": _heard_but_silent,
    "nothing gets through": _never,
}
"""What becomes of every request while the network is cut, by its name."""
