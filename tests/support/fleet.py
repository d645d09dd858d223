"""Processes that change one table, of which some are killed and others started in their place."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Callable, Mapping

__all__ = ["Fleet"]

_ROOT = Path(__file__).resolve().parents[2]
_ENDLESS = 1_000_000_000


@dataclass
class Fleet:
    """So many processes of ``tests.support.workload``, which work until they are told to end.

    `options` says with which storage options the process of a number opens the table. What they
    say is in `said`; whoever is killed has said what it was about, and not what became of it.
    """

    uri: str
    processes: int
    options: Callable[[int], Mapping[str, str]] = lambda _: {}
    environment: Mapping[str, str] = field(default_factory=dict)
    said: list[dict[str, Any]] = field(default_factory=list)
    killed: int = 0
    ended: bool = False
    _alive: dict[int, Process] = field(default_factory=dict)
    _doomed: set[int] = field(default_factory=set)
    _random: random.Random = field(default_factory=lambda: random.Random(16))

    @property
    def pids(self) -> list[int]:
        """The processes that are there now, and have ended an operation."""
        return list(self._alive)

    def outcomes(self, since: int = 0) -> list[dict[str, Any]]:
        """What became of operations, from one thing that was said on."""
        return [each for each in self.said[since:] if "outcome" in each]

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Let them work in the block, and end what they are about after it."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._work(number)) for number in range(self.processes)]
            try:
                yield
            except BaseException:
                for task in tasks:
                    task.cancel()
                raise
            self.ended = True
            for process in self._alive.values():
                if process.stdin is not None:
                    process.stdin.close()

    def kill(self) -> None:
        """End one of them at once, wherever it is."""
        pids = [pid for pid in self._alive if pid not in self._doomed]
        if pids:
            pid = self._random.choice(pids)
            self._doomed.add(pid)
            self._alive[pid].kill()
            self.killed += 1

    async def until(self, told: Callable[[], bool], seconds: float) -> bool:
        """Wait until that is true, for so long at most; whether it is."""
        end = time.monotonic() + seconds
        while not told() and time.monotonic() < end:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.02)
        return told()

    async def _work(self, number: int) -> None:
        life = 0
        while not self.ended:
            life += 1
            await self._live(number, life)

    async def _live(self, number: int, life: int) -> None:
        """One process from its start to its end."""
        pairs = [f"{key}={value}" for key, value in self.options(number).items()]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.workload", self.uri, f"w{number}-{life}"),
            *(str(1 + number + 100 * life), str(_ENDLESS), "--until-told", "--upkeep", *pairs),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": str(_ROOT), **self.environment},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        errors = asyncio.ensure_future(process.stderr.read())
        try:
            async for line in process.stdout:
                if not line.endswith(b"\n"):
                    break  # it was killed when it said that
                self.said.append(json.loads(line))
                if "outcome" in self.said[-1]:  # and so it has loaded what it needs
                    self._alive[process.pid] = process
                if self.ended:
                    process.stdin.close()
            code = await process.wait()
        finally:
            self._alive.pop(process.pid, None)
            if process.returncode is None:
                process.kill()
                await process.wait()
        last = (await errors)[-3000:].decode(errors="replace")
        assert process.pid in self._doomed or code == 0, f"a process ended with {code}: {last}"
