"""adelta in the place of deltalake in child processes; the package deltalake is installed here."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

SPAWNED = """
import multiprocessing, os, sys
from adelta.deltalake.as_deltalake import install_as_deltalake

def module():
    import deltalake
    from deltalake.exceptions import DeltaError
    return f"{deltalake.DeltaTable.__module__} {DeltaError.__module__}"

if __name__ == "__main__":
    install_as_deltalake()
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print(pool.apply(module))
"""
IMPORTS = """
import importlib.util, sys
import deltalake._internal
from deltalake import DeltaTable
print(DeltaTable.__module__, importlib.util.find_spec("deltalake").name)
"""
OURS = "adelta.deltalake.table adelta.deltalake.exceptions"


def output(*arguments: str, **variables: str) -> str:
    command = [sys.executable, *arguments]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_import_adelta_for_deltalake(
    tmp_path: Path, method: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(SPAWNED)
    assert output(str(program), method) == OURS


def test_subprocesses_import_adelta_for_deltalake() -> None:
    parent = (
        "import subprocess, sys\n"
        "from adelta.deltalake.as_deltalake import install_as_deltalake\n"
        "install_as_deltalake()\n"
        f"subprocess.run([sys.executable, '-c', {IMPORTS!r}], check=True)\n"
    )
    assert output("-c", parent) == "adelta.deltalake.table adelta.deltalake"


def test_the_printed_folder_on_the_path_is_enough_for_any_program() -> None:
    folder = output("-m", "adelta.deltalake.as_deltalake")
    path = os.pathsep.join([folder, *sys.path])
    assert output("-c", IMPORTS, PYTHONPATH=path) == "adelta.deltalake.table adelta.deltalake"
    without = output("-c", "import deltalake; print(deltalake.__name__)")
    assert without == "deltalake"


def test_installing_twice_keeps_one_entry_and_the_others_on_the_path() -> None:
    code = (
        "import os, sys\n"
        "from adelta.deltalake.as_deltalake import install_as_deltalake\n"
        "before = sys.path[:], os.environ['PYTHONPATH']\n"
        "install_as_deltalake(); install_as_deltalake()\n"
        "folder = sys.path.pop(1)\n"
        "assert sys.path == before[0]\n"
        "assert os.environ['PYTHONPATH'] == folder + os.pathsep + before[1]\n"
        "print(os.path.basename(folder))"
    )
    assert output("-c", code, PYTHONPATH=os.pathsep.join(filter(None, sys.path))) == "_alias"
