"""The engines, and what each of them answers, asked for once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

import adelta.sync
from tests.interoperability.engines import ENGINES, Engine, EngineError
from tests.interoperability.limits import Misreads, Refuses, limit_of
from tests.interoperability.rows import counted
from tests.interoperability.tables import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

__all__ = ["Engines", "check_reading", "ours"]


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines that run, and why others do not."""

    running: dict[str, Engine] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Engine:
        """The engine; the test is skipped where it does not run."""
        if name in self.missing:
            pytest.skip(self.missing[name])
        return self.running[name]


@pytest.fixture(scope="package")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """All engines, each in a process of its own."""
    folder = tmp_path_factory.getbasetemp()
    found = Engines()

    def start(name: str) -> None:
        try:
            found.running[name] = Engine(name, folder)
        except pytest.skip.Exception as reason:
            found.missing[name] = str(reason)

    with ThreadPoolExecutor(len(ENGINES)) as pool:
        list(pool.map(start, ENGINES))
        yield found
        list(pool.map(Engine.close, found.running.values()))


@pytest.fixture(scope="package")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A table of each kind."""
    folder = tmp_path_factory.mktemp("tables")
    made = {kind: folder / str(number) for number, kind in enumerate(KINDS)}
    for kind, root in made.items():
        KINDS[kind](root)
    return made


@pytest.fixture(scope="package")
def answers(engines: Engines, tables: dict[str, Path]) -> dict[str, dict[str, pa.Table | str]]:
    """The rows of each table, or the error, by engine."""

    def ask(engine: Engine) -> dict[str, pa.Table | str]:
        return {kind: _answer(engine, root) for kind, root in tables.items()}

    with ThreadPoolExecutor(len(ENGINES)) as pool:
        return dict(zip(engines.running, pool.map(ask, engines.running.values()), strict=True))


@pytest.fixture(scope="package")
def expected(tables: dict[str, Path]) -> dict[str, pa.Table]:
    """The rows of each table, as adelta reads them."""
    return {kind: ours(root) for kind, root in tables.items()}


def _answer(engine: Engine, root: Path) -> pa.Table | str:
    try:
        return engine.read(root)
    except EngineError as error:
        return str(error)


def ours(root: Path, version: int | None = None) -> pa.Table:
    """The rows that adelta reads."""
    with adelta.sync.open_table(str(root)) as table:
        return table.snapshot(version=version).scan().to_arrow()


def check_reading(engine: Engine, kind: str, answer: pa.Table | str, expected: pa.Table) -> None:
    """Assert that the engine has read what adelta reads, or has the limit that it is known for."""
    limit = limit_of(engine.name, kind)
    over = f"{engine} has lost its limit for {kind!r}, or has another one: change it in limits.py"
    if isinstance(answer, str):
        assert isinstance(limit, Refuses), f"{engine}: {answer}"
        assert limit.words in answer, f"{over}: {answer}"
        return
    assert not isinstance(limit, Refuses), over
    rows = counted(expected, expected.schema)
    theirs = counted(answer, expected.schema)
    if isinstance(limit, Misreads):
        assert theirs != rows, over
        return
    only_ours, only_theirs = list((rows - theirs).elements()), list((theirs - rows).elements())
    assert theirs == rows, f"adelta alone: {only_ours[:3]}; {engine} alone: {only_theirs[:3]}"
