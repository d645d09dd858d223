"""Run the code blocks of pages, each page in a folder of its own and with names of its own.

    python -m tests.docs.run_pages PAGE... < /dev/null

A block of ``python`` is run behind those before it on its page. Of ``sh``, the lines that call
`adelta` are run, in this process, and those that would install something or run for ever are held
to what they name. A block of ``text`` is what the block before it prints; ``...`` stands for
anything. It prints a line for each page, and ends with the first block that fails.
"""

from __future__ import annotations

import doctest
import io
import os
import re
import shlex
import sys
import tempfile
import time
import tomllib
import traceback
from contextlib import redirect_stdout
from pathlib import Path

from adelta.cli.main import command_parser, main
from tests.docs.blocks import ROOT, Block, blocks_of

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
_EXTRA = re.compile(r"adelta\[([\w,]+)\]")
_AS_DOCTEST = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_FOR_EVER = {"serve", "demo", "tail", "ui"}  # commands that are not run; their arguments are read


def run_page(page: str) -> int:
    """Run a page; how many blocks it has."""
    home, before = Path.cwd(), dict(os.environ)
    names: dict[str, object] = {"__name__": "__main__"}
    blocks, printed = blocks_of(page), ""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chdir(folder)
        try:
            for block in blocks:
                try:
                    printed = run_block(block, names, printed)
                except BaseException as error:
                    raise AssertionError(f"{block.place}\n{block.text}") from error
        finally:
            os.chdir(home)
            os.environ.clear()
            os.environ.update(before)
    return len(blocks)


def run_block(block: Block, names: dict[str, object], before: str) -> str:
    """Run one block; what it prints. `before` is what the block before it has printed."""
    if block.language == "text":
        if not doctest.OutputChecker().check_output(block.text, before, _AS_DOCTEST):
            raise AssertionError(f"this was printed:\n{before}")
        return ""
    with redirect_stdout(io.StringIO()) as output:
        if block.language == "python":
            code = "\n" * (block.line - 1) + block.text  # so that tracebacks say the page's lines
            exec(compile(code, block.page, "exec"), names)
        elif block.language == "sh":
            for line in re.sub(r"\\\n", " ", block.text).splitlines():
                if words := shlex.split(line, comments=True):
                    run_line(words)
        else:
            raise AssertionError(f"a block is of python, sh or text, not {block.language!r}")
    return output.getvalue()


def run_line(words: list[str]) -> None:
    """Run a line for the shell, or hold it to what it names where it cannot be run here."""
    match words:
        case ["adelta", command, *_] if command in _FOR_EVER:
            command_parser({command}).parse_args(words[1:])
        case ["adelta", *arguments]:
            assert main(arguments) == 0, f"{shlex.join(words)} failed"
        case ["export", *settings]:
            for setting in settings:
                name, _, value = setting.partition("=")
                os.environ.setdefault(name, value)  # what the reader has stays
        case ["pip", "install", *what]:
            for extras in _EXTRA.findall(" ".join(what)):
                assert set(extras.split(",")) <= set(_PROJECT["project"]["optional-dependencies"])
        case ["tox", "-e", name, *_]:
            assert f"testenv:{name}]" in (ROOT / "tox.ini").read_text(encoding="utf-8")
        case ["python"] | ["python", "-m", "venv" | "asyncio" | "pip", *_] | ["." | "source", _]:
            pass
        case ["python" | "spark-submit" | "uvicorn", *arguments]:
            files = [each for each in arguments if each.endswith(".py")]
            assert files, f"{shlex.join(words)} names no file"
            assert all((ROOT / each).is_file() for each in files), f"{files} are not there"
        case _:
            raise AssertionError(f"{shlex.join(words)} is nothing that could be run here")


def run(pages: list[str]) -> None:
    for page in pages:
        began = time.process_time()
        try:
            count = run_page(page)
        except AssertionError:
            traceback.print_exc()
            sys.exit(f"{page} does not run")
        print(f"{page}: {count} blocks, {time.process_time() - began:.1f} s", flush=True)


if __name__ == "__main__":
    run(sys.argv[1:])
