"""What lies in the log of a table that is another's: left by who worked on the one before it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, TypeVar

from adelta.kernel.log_path import LAST_CHECKPOINT_PATH, LOG_DIR, LogFileKind, parse_log_path
from tests.simulation.weather import WeatherStation

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.simulation.store import Bucket, Request
    from tests.simulation.weather import Weather
    from tests.simulation.world import Process, World

__all__ = ["Lazy", "left_behind"]

R = TypeVar("R")

_MANIFEST = "_symlink_format_manifest/manifest"


class Lazy(WeatherStation):
    """The network of a process that stops for seconds before some requests.

    Not before those that delete: nobody can look at the same moment, and so they may be as late as
    the process that sends them. `sent` are the objects that it has put by itself.
    """

    def __init__(
        self,
        world: World,
        weather: Weather,
        process: Process,
        drawn: random.Random,
        chance: float,
    ) -> None:
        super().__init__(world, weather)
        self.process = process
        self.drawn = drawn
        self.chance = chance
        self.sent: set[str] = set()

    async def carry(self, request: Request, effect: Callable[[], R]) -> R:
        if request.kind != "delete" and self.drawn.random() < self.chance:
            await asyncio.sleep(self.drawn.uniform(1, 6))
        if not request.reads:
            self.sent.add(request.path)
        return await super().carry(request, effect)


def left_behind(bucket: Bucket, id: str, latest: int, excused: set[str]) -> list[str]:
    """The objects beside the commits of the table `id`, up to its version `latest`, of another one.

    What is `excused` may lie there.
    """
    found = []
    objects = {path: each.data for path, each in bucket.objects.items() if path not in excused}
    if (hint := objects.get(LAST_CHECKPOINT_PATH)) and json.loads(hint)["version"] > latest:
        found.append(LAST_CHECKPOINT_PATH)
    if f"{LOG_DIR}_last_vacuum_info" in objects:
        found.append(f"{LOG_DIR}_last_vacuum_info")  # nothing here is old enough for one
    for path, data in objects.items():
        file = parse_log_path(path)
        if file is None or file.kind is LogFileKind.COMMIT:
            continue
        is_checksum = file.kind is LogFileKind.CHECKSUM
        if file.version > latest or (is_checksum and json.loads(data)["metadata"]["id"] != id):
            found.append(path)
    lines = objects.get(_MANIFEST, b"").decode().split()
    gone = (line for line in lines if line.partition("/table/")[2] not in bucket.objects)
    return found + [f"{_MANIFEST} with {line}" for line in gone]
