"""What shells complete, asked of the shells themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from adelta.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Run

pytest.importorskip("shtab")
ASK = """
source "$1"
shift
ask=$(complete -p adelta | sed 's/.*-F \\([^ ]*\\).*/\\1/')
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
$ask adelta "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
echo "${COMPREPLY[@]}"
"""


def script(run: Run, folder: Path, shell: str) -> str:
    status, out, err = run("completion", shell)
    assert (status, err) == (0, "")
    path = folder / "script"
    path.write_text(out)
    return str(path)


def installed(shell: str) -> str:
    if (found := shutil.which(shell)) is None:
        pytest.skip(f"{shell} is not installed")
    return found


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["hi"], ["history"]),
        (["history", "--li"], ["--limit"]),
        (["write", "x", "y", "--mode", ""], ["append", "overwrite", "error", "ignore"]),
        (["alter", "x", "re"], ["rename-column"]),
    ],
)
def test_bash_completes_commands_options_and_choices(
    run: Run, tmp_path: Path, typed: list[str], offered: list[str]
) -> None:
    command = [installed("bash"), "-c", ASK, "ask", script(run, tmp_path, "bash"), "adelta"]
    done = subprocess.run([*command, *typed], capture_output=True, text=True, check=True)
    assert done.stdout.split() == offered


def test_fish_completes_them_too(run: Run, tmp_path: Path) -> None:
    path = script(run, tmp_path, "fish")
    command = [installed("fish"), "-c", f'source {path}; complete -C "adelta hi"']
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"HOME": str(tmp_path)},
    )
    assert done.stdout.startswith("history\t")


def test_zsh_reads_its_script(run: Run, tmp_path: Path) -> None:
    command = [installed("zsh"), "-n", script(run, tmp_path, "zsh")]
    assert subprocess.run(command, capture_output=True, check=True).stderr == b""


def test_without_shtab_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert "adelta[completion]" in capsys.readouterr().err
