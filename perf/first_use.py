"""The first work of a fresh process, of adelta or of deltalake, timed from right after its import.

    python perf/first_use.py adelta|deltalake open|files|partition|id FOLDER

Nothing but the engine has been imported when the clock starts: what it loads when it is first used,
threads that it starts and memory that it is given for the first time are in the figure.
"""

from __future__ import annotations

import sys
import time

PARTITION = "p = '00017'"
ID = "id = 17017500"


def by_adelta(work: str, folder: str) -> tuple[float, int]:
    import adelta

    began = time.perf_counter()
    import asyncio

    async def measured() -> int:
        async with adelta.open_table(folder) as table:
            snapshot = await table.snapshot()
            match work:
                case "files":
                    return (await snapshot.files()).num_rows
                case "partition":
                    return (await snapshot.files(where=PARTITION)).num_rows
                case "id":
                    return (await snapshot.files(where=ID)).num_rows
            return snapshot.version

    return began, asyncio.run(measured())


def by_deltalake(work: str, folder: str) -> tuple[float, int]:
    from deltalake import DeltaTable

    began = time.perf_counter()
    table = DeltaTable(folder)
    match work:
        case "files":
            return began, table.get_add_actions().num_rows
        case "partition":
            return began, len(table.file_uris(file_pruning_predicate=PARTITION))
        case "id":
            return began, len(table.file_uris(file_pruning_predicate=ID))
    return began, table.version()


if __name__ == "__main__":
    engine, work, folder = sys.argv[1:]
    start, answer = (by_adelta if engine == "adelta" else by_deltalake)(work, folder)
    print(f'{{"seconds": {time.perf_counter() - start}, "answer": {answer}}}')
