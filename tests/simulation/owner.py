"""Adelta's own commit owner: several instances on one ledger, that die and come back.

`OwnerService` answers as it does behind a socket, and clients ask as they do; between them are no
sockets but a network that brings requests and answers late, or loses them, and tells a client what
one is told by a connection that breaks.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import orjson

from adelta.commit.owner_client import AdeltaOwnerClient
from adelta.commit.owner_registry import register_commit_owner
from adelta.errors import StorageError
from adelta.owner.access import Right, Tokens
from adelta.owner.parts import Parts, Settings
from adelta.owner.server import _settle
from adelta.owner.service import OwnerService
from adelta.storage.json_http import JsonAnswer, JsonServer, _NoAnswer
from adelta.storage.retry import Outcome
from tests.simulation.ledger import LedgerBase, SimulatedDatabase
from tests.simulation.store import Direct, SimulatedStore
from tests.simulation.weather import WeatherStation
from tests.simulation.world import here

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from adelta.commit.owner import ManagedTable
    from tests.simulation.store import Bucket
    from tests.simulation.weather import Weather
    from tests.simulation.world import Process, World

__all__ = ["OWNER", "SimulatedOwner"]

OWNER = "simulated"
ENDPOINT = "http://owner.simulated"
_LATE = 40.0  # seconds, at most, that a request is under way which nobody waits for any more
_FAILED = b"the commit owner failed; see its log"

_Attempt = tuple[Outcome | None, JsonAnswer | _NoAnswer]


class SimulatedOwner:
    """The owner: so many instances, each of which is started again when it has died."""

    def __init__(
        self, world: World, bucket: Bucket, weather: Weather, *, torn: bool = False
    ) -> None:
        self.world = world
        self.bucket = bucket
        self.weather = weather
        self.base = LedgerBase(world, torn=torn)
        self.instances: list[_Instance] = []
        self.token = ""
        self.failures: list[str] = []
        self._started = 0
        self._keepers: list[asyncio.Future[None]] = []

    @property
    def properties(self) -> dict[str, str]:
        """Those of a table that is the owner's."""
        return {
            "delta.managedCommit.commitOwner": OWNER,
            "delta.managedCommit.commitOwnerConf": orjson.dumps({"endpoint": ENDPOINT}).decode(),
        }

    async def start(self, instances: int) -> None:
        """Begin to serve, for the first time or after `stop`. Clients made from now on find it."""
        if not self.token:
            database = await SimulatedDatabase(self.base, Direct(), None).prepare()
            self.token, _ = await Tokens(database).create(Right.OWN, "*")
        register_commit_owner(OWNER, lambda table, _: _Client(table, self))
        self._keepers = [asyncio.ensure_future(self._keep_one()) for _ in range(instances)]
        await asyncio.sleep(0.1)

    def stop(self) -> None:
        """Let all instances die, and none come back."""
        for keeper in self._keepers:
            keeper.cancel()
        self.meet(self.weather)
        self.instances.clear()

    def meet(self, weather: Weather) -> None:
        """Let the network of owner and clients be like that, and instances begin anew in it."""
        self.weather = weather
        for instance in list(self.instances):
            instance.process.crash()

    async def _keep_one(self) -> None:
        """One instance, which is started again after each of its deaths."""
        while True:
            self._started += 1
            process = self.world.process(f"owner{self._started}")
            instance = _Instance(self, process)
            self.instances.append(instance)
            process.start(instance.serve())
            await process.crashed
            self.instances.remove(instance)
            await asyncio.sleep(self.world.random.uniform(0.05, 2.0))

    def kill_one(self) -> None:
        """Let an instance die, whatever it is doing."""
        if self.instances:
            self.world.random.choice(self.instances).process.crash()

    async def kill_now_and_then(self) -> None:
        """Kill one instance after the other."""
        while True:
            await asyncio.sleep(self.world.random.uniform(0.1, 4.0))
            self.kill_one()

    # ------------------------------------------------------------------------------- the network

    async def carry(
        self, method: str, path: str, query: Mapping[str, str], data: bytes | None
    ) -> _Attempt:
        """One request of a client's, and what the client is told."""
        world, draw, weather = self.world, self.world.random, self.weather
        if world.ended:
            raise StorageError("the world has ended")
        process = here()
        who = "world" if process is None else process.name
        answered: asyncio.Future[_Attempt] = world.loop.create_future()

        def tell(told: _Attempt, what: str) -> None:
            world.note(f"{who} {method} {path} {what}")
            if not answered.done():
                answered.set_result(told)

        def later(seconds: float, do: Any) -> None:
            world.loop.call_later(seconds, do, context=world.context)

        def seconds() -> float:
            return draw.expovariate(1 / weather.latency)

        def deliver(*, hears: bool) -> None:
            if not self.instances:
                if hears:
                    later(seconds(), partial(tell, _UNREACHED, "reaches nobody"))
                return
            instance = draw.choice(self.instances)
            task = instance.process.start(instance.answer(method, path, query, data))
            waiting = asyncio.wait(
                (task, instance.process.crashed), return_when=asyncio.FIRST_COMPLETED
            )

            async def bring() -> None:
                await waiting
                if task.done() and not task.cancelled():
                    answer = task.result()
                    what = f"{answer.status} by {instance.process.name}"
                    told: _Attempt = (_outcome(answer), answer)
                else:
                    told, what = _LOST, f"is lost with {instance.process.name}"
                if hears:
                    later(seconds(), partial(tell, told, what))

            world.begun.append(world.loop.create_task(bring(), context=world.context))

        def unheard() -> None:
            deliver(hears=False)
            later(seconds(), partial(tell, _LOST, "is unheard"))

        def given_up() -> None:
            tell(_LOST, "is given up")
            later(draw.uniform(0, _LATE), partial(deliver, hears=False))

        fate = draw.random()
        for chance, meet in (
            (weather.refused, partial(tell, _UNREACHED, "is refused")),
            (weather.lost_before, partial(tell, _LOST, "is lost")),
            (weather.lost_after, unheard),
            (weather.late if method == "POST" else 0.0, given_up),
            (1.0, partial(deliver, hears=True)),
        ):
            if fate < chance:
                later(seconds(), meet)
                break
            fate -= chance
        return await answered


_UNREACHED: _Attempt = (
    Outcome("it got no answer", transient=True),
    _NoAnswer("the owner cannot be reached", False),
)
_LOST: _Attempt = (
    Outcome("it got no answer", transient=True, maybe_applied=True),
    _NoAnswer("the owner gave no answer", True),
)


def _outcome(answer: JsonAnswer) -> Outcome | None:
    """What may help after an answer, as `JsonServer` has it."""
    if answer.status != 429 and answer.status < 500:
        return None
    why, failed = f"its status is {answer.status}", answer.status >= 500
    return Outcome(why, transient=True, maybe_applied=failed)


class _Instance:
    """One instance of the service, in a process of its own."""

    def __init__(self, owner: SimulatedOwner, process: Process) -> None:
        self.owner = owner
        self.process = process
        network = WeatherStation(owner.world, owner.weather)
        database = SimulatedDatabase(owner.base, network, process)
        database.is_shared = True
        store = SimulatedStore(owner.bucket, network, "s3://simulated")
        self.parts = Parts(Settings(""), database, opens=lambda *_: store)
        self.service = OwnerService(self.parts)
        self.routes = {(method, path): answer for method, path, answer in self.service.routes()}

    async def serve(self) -> None:
        """What runs beside the requests, as `running_owner` has it."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.parts.announcements.run)
            group.start_soon(_settle, self.parts)
            group.start_soon(self.parts.backfiller.run)

    async def answer(
        self, method: str, path: str, query: Mapping[str, str], data: bytes | None
    ) -> JsonAnswer:
        """The answer to a request."""
        request = _Request(method, query, data, {"Authorization": f"Bearer {self.owner.token}"})
        handle = self.service._handle
        found = await handle(self.routes[method, path], path, {}, request)  # type: ignore[arg-type]
        body = found.body
        assert isinstance(body, bytes)
        if _FAILED in body:
            self.owner.failures.append(f"the owner fails at {method} {path}")
        return JsonAnswer(found.status, orjson.loads(body))


@dataclass
class _Request:
    """What the service asks of a request that a socket has brought."""

    method: str
    query: Mapping[str, str]
    data: bytes | None
    headers: Mapping[str, str]
    remote: str = "client"
    transport: None = None
    content: _Content = field(init=False)

    def __post_init__(self) -> None:
        self.content = _Content(self.data or b"")

    @property
    def can_read_body(self) -> bool:
        return self.data is not None

    @property
    def content_length(self) -> int:
        return len(self.data or b"")


@dataclass
class _Content:
    data: bytes

    def is_eof(self) -> bool:
        return True

    async def iter_any(self) -> AsyncIterator[bytes]:
        yield self.data


class _Client(AdeltaOwnerClient):
    """The client, whose requests the simulated network carries."""

    def __init__(self, table: ManagedTable, simulated: SimulatedOwner) -> None:
        self._simulated = simulated
        super().__init__(table, ENDPOINT, simulated.token)

    def _connected(self) -> JsonServer:
        return _Server(self._simulated, self._owner.endpoint)


class _Server(JsonServer):
    """The owner as a client sees it: retries are the client's own, attempts the network's."""

    def __init__(self, simulated: SimulatedOwner, endpoint: str) -> None:
        super().__init__(endpoint)
        self._simulated = simulated

    async def _attempt(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> _Attempt:
        data = None if body is None else orjson.dumps(body)
        return await self._simulated.carry(method, f"/api/v1/{path}", query or {}, data)
