"""A network as bad as they get: late, lost, refused, repeated, all of it drawn from the seed.

What a caller sees is what an adapter of the port would let it see after its own retries: a read
fails or not, and of what the store refuses every other is throttled; a put that failed may have
taken effect, and may still do so later; a conditional put whose answer was lost ends in
`CommitOutcomeUnknownError`, or was repeated and says so.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from adelta.errors import (
    AdeltaError,
    CommitOutcomeUnknownError,
    ObjectExistsError,
    StorageError,
    ThrottledError,
)
from adelta.storage.object_store import ObjectMeta
from tests.simulation.world import here

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from tests.simulation.store import Request
    from tests.simulation.world import World

__all__ = ["CALM", "ROUGH", "Weather", "WeatherStation"]

R = TypeVar("R")

_LATE = 40.0  # seconds, at most, that a request is under way which nobody waits for any more


@dataclass(frozen=True, slots=True)
class Weather:
    """How likely it is, of 1, that a request meets a fault; and how long one takes, in seconds."""

    latency: float = 0.02
    refused: float = 0.0
    lost_before: float = 0.0
    lost_after: float = 0.0
    late: float = 0.0
    repeated: float = 0.0
    slow: float = 0.02


CALM = Weather()
ROUGH = Weather(refused=0.01, lost_before=0.01, lost_after=0.01, late=0.005, repeated=0.01)


class WeatherStation:
    """A network of one process."""

    def __init__(self, world: World, weather: Weather) -> None:
        self.world = world
        self.weather = weather

    async def carry(self, request: Request, effect: Callable[[], R]) -> R:
        """The answer, when it comes."""
        if self.world.ended:
            raise StorageError("the world has ended")
        draw, weather = self.world.random, self.weather
        answered: asyncio.Future[R] = self.world.loop.create_future()
        process = here()
        who = "world" if process is None else process.name
        unclear = request.kind == "create"

        def seconds() -> float:
            typical = weather.latency * (20 if draw.random() < weather.slow else 1)
            return draw.expovariate(1 / typical)

        def note(what: object) -> None:
            if self.world.keeps_trace:
                shown = what if isinstance(what, str) else _shown(what)
                self.world.note(f"{who} {request.kind} {request.path} {shown}")

        def fail(what: str, *, unclear: bool) -> None:
            note(what)
            if not answered.done():
                kind = CommitOutcomeUnknownError if unclear else StorageError
                answered.set_exception(kind(f"{request.path}: {what}"))

        def refuse() -> None:
            throttled = fate < weather.refused / 2
            note("is throttled" if throttled else "is refused")
            if not answered.done():
                kind = ThrottledError if throttled else StorageError
                answered.set_exception(kind(f"{request.path}: the store refuses"))

        def take_effect(*, then: Callable[[R | AdeltaError], None]) -> None:
            result: R | AdeltaError
            try:
                result = effect()
            except AdeltaError as error:
                result = error
            note(result)
            self._later(seconds(), lambda: then(result))

        def answer(result: R | AdeltaError) -> None:
            if answered.done():
                return
            if isinstance(result, AdeltaError):
                answered.set_exception(result)
            else:
                answered.set_result(result)

        def again(first: R | AdeltaError) -> None:
            """The adapter got no answer to its first request, and has sent another one."""

            def told(second: R | AdeltaError) -> None:
                both = request.kind == "create" and isinstance(first, ObjectMeta)
                if both and isinstance(second, ObjectExistsError | ObjectMeta):
                    answer(cast("R", replace(cast("ObjectMeta", first), repeated=True)))
                elif unclear and _fails(second) and not isinstance(first, AdeltaError):
                    fail("fails when it is repeated", unclear=True)
                else:
                    answer(second)

            take_effect(then=told)

        fate, at = draw.random(), 0.0
        for chance, meet in (
            (weather.refused, refuse),
            (weather.lost_before, lambda: fail("is lost", unclear=unclear)),
            (
                weather.lost_after,
                lambda: take_effect(then=lambda _: fail("has no answer", unclear=unclear)),
            ),
            (
                0.0 if request.reads else weather.late,
                lambda: (
                    fail("is given up", unclear=unclear),
                    self._later(draw.uniform(0, _LATE), lambda: take_effect(then=lambda _: None)),
                ),
            ),
            (weather.repeated, lambda: take_effect(then=again)),
        ):
            if at <= fate < at + chance:
                self._later(seconds(), meet)
                break
            at += chance
        else:
            self._later(seconds(), lambda: take_effect(then=answer))
        return await answered

    def _later(self, seconds: float, do: Callable[[], Any]) -> None:
        """By the network, whatever becomes of the process."""
        self.world.loop.call_later(seconds, do, context=self.world.context)


def _fails(result: object) -> bool:
    return isinstance(result, StorageError) and not isinstance(result, ObjectExistsError)


def _shown(result: object) -> str:
    if isinstance(result, AdeltaError):
        return type(result).__name__
    if isinstance(result, list):
        return f"{len(result)} found"
    data = getattr(result, "data", None) or (result[0] if isinstance(result, tuple) else None)
    if isinstance(data, bytes):
        return hashlib.blake2b(data, digest_size=6).hexdigest()
    return "" if result is None else str(getattr(result, "etag", "done"))
