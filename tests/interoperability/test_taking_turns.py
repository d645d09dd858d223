"""Engines that write take turns with adelta on one table, and all readers agree in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta.sync
from tests.interoperability.conftest import check_reading, ours
from tests.interoperability.engines import ENGINES, EngineError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interoperability.conftest import Engines
    from tests.interoperability.engines import Engine

ROUNDS = 20
SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("p", pa.string())])
PARTITIONS = ("a b", "x/y", None, "größe=✓")
PLAIN_PARTITIONS = ("a", "b")
"""What DuckDB 1.5.5 can write.

In the log it encodes the characters of a path once too little, so that no engine finds its files,
not even DuckDB; and nulls it writes as empty texts.
"""
Row = dict[str, Any]


class Game:
    """A table, and the rows that are to be in it after all turns so far."""

    def __init__(self, root: Path, *, vectors: bool = False) -> None:
        self.root = root
        self.rows: dict[int, Row] = {}
        self.table = adelta.sync.create_table(
            str(root),
            SCHEMA,
            partition_by=["p"],
            properties={"delta.enableDeletionVectors": str(vectors).lower()},
        )

    def _new(self, by: str, count: int) -> list[Row]:
        """Rows of one partition: DuckDB inserts into no more than one at a time."""
        first = max(self.rows, default=-10) + 10
        choice = PLAIN_PARTITIONS if by == "DuckDB" else PARTITIONS
        partition = choice[first // 10 % len(choice)]
        texts = [by, None, f"{by}, a text of more than twelve bytes"]
        made = [{"id": first + n, "s": texts[n % 3], "p": partition} for n in range(count)]
        self.rows |= {row["id"]: row for row in made}
        return made

    def theirs(self, engine: Engine) -> None:
        """A commit of the engine."""
        engine.append(self.root, self._new(engine.name, 3))

    def ours(self, number: int) -> None:
        """A commit of adelta's: rows are added, changed or deleted, of whoever wrote them."""
        if number % 4 == 1:
            gone = sorted(self.rows)[:: max(2, len(self.rows) // 3)]
            adelta.sync.delete(self.table, f"id in ({', '.join(map(str, gone))})")
            self.rows = {key: row for key, row in self.rows.items() if key not in gone}
        elif number % 4 == 3:
            last = max(self.rows)
            adelta.sync.update(self.table, {"s": "concat(s, '!')"}, f"id >= {last - 2}")
            changed = [row for key, row in self.rows.items() if key >= last - 2]
            self.rows |= {row["id"]: {**row, "s": row["s"] and row["s"] + "!"} for row in changed}
        else:
            adelta.sync.write_table(
                self.table, pa.Table.from_pylist(self._new("adelta", 2), schema=SCHEMA)
            )

    def check(self, engines: Engines, kind: str) -> None:
        """All that read it agree."""
        expected = ours(self.root)
        assert sorted(expected.to_pylist(), key=lambda row: row["id"]) == [
            self.rows[key] for key in sorted(self.rows)
        ]
        assert self.table.snapshot().scan().count() == len(self.rows)
        for engine in engines.running.values():
            try:
                answer: pa.Table | str = engine.read(self.root)
            except EngineError as error:
                answer = str(error)
            check_reading(engine, kind, answer, expected)


@pytest.mark.parametrize("vectors", [False, True], ids=["copies", "vectors"])
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_and_adelta_take_turns(
    engine: str, vectors: bool, engines: Engines, tmp_path: Path
) -> None:
    other = engines[engine]
    game = Game(tmp_path / "table", vectors=vectors)
    for number in range(ROUNDS):
        game.theirs(other)
        game.ours(number)
    assert game.table.snapshot().version == 2 * ROUNDS
    assert list((game.root / "_delta_log").glob("*.checkpoint*.parquet"))
    game.check(engines, f"turns with {engine}" + (" and deletion vectors" if vectors else ""))


def test_all_engines_and_adelta_take_turns(engines: Engines, tmp_path: Path) -> None:
    game = Game(tmp_path / "table")
    for number in range(ROUNDS):
        for engine in engines.running.values():
            game.theirs(engine)
        game.ours(number)
    assert game.table.snapshot().version == ROUNDS * (len(engines.running) + 1)
    game.check(engines, "turns of all")
