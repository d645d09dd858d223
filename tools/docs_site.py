"""What the site of the documentation has besides the pages in ``docs``; mkdocs calls this.

The README is its first page, and the other pages of the repository's root are among its pages, so
that nothing is written twice. Links are written for the repository, and lead to pages of the site.
The page of further names has whatever is public and on no other page of the reference. A page that
would have a browser fetch something from elsewhere is a failure.
"""

from __future__ import annotations

import io
import posixpath
import re
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import adelta

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["on_files", "on_page_markdown", "on_post_build", "unlisted_names"]

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "perf/README.md": "benchmarks.md",
} | {f"perf/{plot.name}": plot.name for plot in (ROOT / "perf").glob("*.png")}
"""Files of the repository, and under which names they are on the site."""

OBJECT = re.compile(r"^::: ([\w.]+)", re.MULTILINE)
_LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*\ssrc=["']?(?:https?:)?//"""
    r"""|<link\b(?![^>]*rel=["']?(?:canonical|prev|next))[^>]*\shref=["']?(?:https?:)?//"""
    r"""|url\(["']?(?:https?:)?//|@import\s+["']?(?:https?:)?//""",
    re.IGNORECASE,
)


def unlisted_names() -> list[str]:
    """The public names of `adelta` that no page of the reference has, by where they are defined."""
    listed = {
        name
        for path in (ROOT / "docs" / "reference").glob("*.md")
        for name in OBJECT.findall(path.read_text(encoding="utf-8"))
    }
    homes = vars(adelta)["_homes"]
    return [
        f"{home}.{name}"
        for name, home in homes.items()
        if f"adelta.{name}" not in listed and f"{home}.{name}" not in listed
    ]


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie elsewhere in the repository."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links between files of the repository into links between pages of the site."""
    here: str = page.file.src_uri
    source = next((path for path, name in PAGES.items() if name == here), f"docs/{here}")

    def on_the_site(link: re.Match[str]) -> str:
        opening, target, rest = link.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        there = PAGES.get(path) or path.removeprefix("docs/")
        if there == path:  # no page: a file to read in the repository
            return f"{opening}{target}{rest}"
        return f"{opening}{posixpath.relpath(there, posixpath.dirname(here) or '.')}{rest}"

    if here == "cli.md":
        markdown += "".join(_help(command) for command in _commands())
    if here == "reference/more.md":
        markdown += "".join(f"\n\n::: {name}" for name in unlisted_names())
    return _LINK.sub(on_the_site, markdown)


def _commands() -> list[str]:
    """The commands of the command line, by name."""
    folder = ROOT / "adelta" / "cli" / "commands"
    return sorted(path.stem.replace("_", "-") for path in folder.glob("[!_]*.py"))


def _help(command: str) -> str:
    """What a command says of itself, as a section of a page."""
    from adelta.cli.main import main

    with redirect_stdout(io.StringIO()) as printed, suppress(SystemExit):
        main([command, "--help"])
    return f"\n\n## {command}\n\n```text\n{printed.getvalue().strip()}\n```"


def on_post_build(config: Any) -> None:
    """Fail where a page would fetch something from elsewhere."""
    found = list(_fetched(Path(config["site_dir"])))
    if found:
        raise SystemExit("fetched from elsewhere:\n" + "\n".join(found))


def _fetched(site: Path) -> Iterator[str]:
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        for match in _FETCHED.finditer(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: {match.group()}"
