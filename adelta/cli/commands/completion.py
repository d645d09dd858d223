"""Print what lets a shell complete the command's arguments, made of the commands themselves.

bash  eval "$(adelta completion bash)" in ~/.bashrc
zsh   adelta completion zsh > a folder of $fpath, as _adelta
fish  adelta completion fish > ~/.config/fish/completions/adelta.fish

It needs shtab: pip install 'adelta[completion]'.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from adelta.errors import InvalidUseError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adelta.console.render import Output

__all__ = ["configure", "run"]

_SHELLS = ("bash", "zsh", "fish")
_FILES = ("lake", "like", "source", "target", "uri", "uris")
"""The arguments that may be a path of this machine."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("shell", choices=_SHELLS)


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Print the shell's script.

    Raises:
        InvalidUseError: shtab is not installed.
    """
    try:
        import shtab
    except ImportError as error:
        raise InvalidUseError(
            "completion needs shtab, which is not installed: pip install 'adelta[completion]'"
        ) from error
    from adelta.cli.main import command_parser

    parser = command_parser()
    for action in _actions(parser):
        if action.dest in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    output.raw(shtab.complete(parser, arguments.shell))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of a command and of all below it."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
