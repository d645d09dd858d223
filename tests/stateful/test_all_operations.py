"""All operations in any order, on tables with any features: the table does what a model does.

A state machine draws the features of a table, and steps; a model in Python takes the same steps.
After each the contents agree, as do the changes that the feed tells of, the ids of rows, the
statistics of files, and the history; earlier versions read as they did, and what is refused leaves
the table as it was. In the end other engines read the same.

`ADELTA_TEST_SEQUENCES` says how many sequences of steps are tried.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING, ClassVar

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.interoperability.conftest import ours
from tests.interoperability.engines import Engine
from tests.interoperability.rows import counted
from tests.support.depth import cases
from tests.support.model.run import Run
from tests.support.model.steps import STEPS
from tests.support.second_opinion import compare_readers

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.model.step import Step

SEQUENCES = int(os.environ.get("ADELTA_TEST_SEQUENCES", cases(200, 5)))
LENGTH = 14
RANDOM = st.randoms(use_true_random=False)
KINDS = st.sampled_from([kind for kind, weight in STEPS.items() for _ in range(weight)])


class Operations(RuleBasedStateMachine):
    """A table, its model, and the operations on both."""

    duckdb: ClassVar[Engine]
    folder: ClassVar[Path]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.pair: Run | None = None

    @initialize(source=RANDOM)
    def create(self, source: random.Random) -> None:
        self.pair = self.loop.run(Run.begin(source))
        note(f"{self.pair.model}\n{self.pair.properties}")

    @rule(kind=KINDS, source=RANDOM)
    def step(self, kind: type[Step], source: random.Random) -> None:
        assert self.pair is not None
        step = self.pair.drawn(source, kind)
        if step is not None:
            note(f"{self.pair.version}: {step!r}")
            self.loop.run(self.pair.take(step, source))

    @precondition(lambda self: self.pair is not None and len(self.pair.others) < 2)
    @rule(shallow=st.booleans(), seldom=st.integers(0, 9))
    def clone(self, shallow: bool, seldom: int) -> None:
        assert self.pair is not None
        if seldom == 0:
            note(f"clone, shallow={shallow}")
            self.loop.run(self.pair.clone(shallow=shallow))

    def teardown(self) -> None:
        try:
            if self.pair is not None:
                self.loop.run(self.pair.end())
                if not self.pair.shallow:  # whose files others would seek in adelta's memory
                    self.loop.run(self.pair.put_on_disk(self.folder))
                    self.read_by_others()
        finally:
            self.loop.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def read_by_others(self) -> None:
        """By deltalake, or else the plain reader; and DuckDB, which has one known fault."""
        assert self.pair is not None
        compare_readers(self.folder)
        if self.pair.model.mapped and self.pair.model.partition_by:
            return  # it seeks partition values by logical names
        expected = ours(self.folder)
        found = self.duckdb.read(self.folder)
        assert counted(found, expected.schema) == counted(expected, expected.schema)


@pytest.fixture(scope="module")
def duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = Engine("DuckDB", tmp_path_factory.mktemp("engine"))
    yield engine
    engine.close()


@pytest.mark.timeout(0)
def test_the_table_does_what_the_model_does(
    duckdb: Engine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    class Machine(Operations):
        folder = tmp_path_factory.mktemp("tables") / "t"

    Machine.duckdb = duckdb
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=SEQUENCES,
            stateful_step_count=LENGTH,
            suppress_health_check=list(HealthCheck),
        ),
    )
