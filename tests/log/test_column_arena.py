"""Arrays that an arena keeps are what they were, and free of what they came in."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest

from adelta.kernel.actions.file_schemas import DELETION_VECTOR, STRING_MAP
from adelta.log import column_arena as arena_module
from adelta.log.column_arena import ColumnArena

VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA",
    "offset": 1,
    "sizeInBytes": 40,
    "cardinality": 6,
}
ARRAYS: list[Any] = [
    pa.array(["a", None, "", "\u00fc" * 9]),
    pa.array([1, None, 3], pa.int64()),
    pa.array([True, False, None] * 7),
    pa.array([{"p": "1", "q": None}, None, {}], STRING_MAP),
    pa.array([VECTOR, None, VECTOR], DELETION_VECTOR),
    pa.array([], pa.string()),
    pa.array([str(n) for n in range(1000)]).slice(17, 500),
    pa.array([{"p": str(n)} for n in range(100)], STRING_MAP).slice(33, 9),
]


@pytest.mark.parametrize("values", ARRAYS, ids=lambda values: f"{values.type}-{len(values)}")
def test_a_kept_array_equals_the_one_that_came(values: Any) -> None:
    kept = ColumnArena().keep(values)
    kept.validate(full=True)
    assert kept.type.equals(values.type)
    assert kept.equals(values)


def test_blocks_are_as_large_as_needed_and_never_shared_by_two_arrays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arena_module, "_BLOCK", 10_000)
    arena = ColumnArena()
    came = [pa.array([f"{n}-{row}" * (1 + n % 7) for row in range(n * 20)]) for n in range(40)]
    kept = [arena.keep(values) for values in came]
    del arena
    assert [values.to_pylist() for values in kept] == [values.to_pylist() for values in came]


def test_nothing_of_the_pool_is_held_by_what_is_kept() -> None:
    arena = ColumnArena()
    before = pa.total_allocated_bytes()
    kept = arena.keep(pa.array(["x" * 1000] * 1000))
    assert pa.total_allocated_bytes() - before < 100_000
    assert len(kept) == 1000


async def test_two_decode_for_an_arena_and_one_where_statistics_become_text() -> None:
    for writes_texts, at_once in ((False, 2), (True, 1)):
        arena, inside, most = ColumnArena(), 0, 0

        async def decode(arena: ColumnArena = arena, writes: bool = writes_texts) -> None:
            nonlocal inside, most
            async with arena.turn(writes_texts=writes):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(decode() for _ in range(6)))
        assert most == at_once
