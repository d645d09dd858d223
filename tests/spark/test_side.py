"""The sides of sessions: chosen in one place, and asked for by the class of a session."""

from __future__ import annotations

from pathlib import Path

import pytest

import adelta.spark
from adelta.errors import InvalidUseError
from adelta.spark.classic.side import ClassicSide, PythonSourceSide
from adelta.spark.connect.side import ConnectSide
from adelta.spark.side import SparkSide, side_of

PACKAGE = Path(adelta.spark.__file__).parent
METHODS = {name for name, each in vars(SparkSide).items() if callable(each) and name[0] != "_"}


def test_one_place_asks_whether_a_session_is_of_spark_connect():
    asking = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if "is_remote()" in path.read_text(encoding="utf-8")
    ]
    assert asking == ["session/registration.py"]


@pytest.mark.parametrize("side", [ClassicSide, ConnectSide, PythonSourceSide])
def test_every_side_has_all_methods_of_the_protocol(side):
    assert METHODS - {*dir(side)} == set()


def test_a_session_whose_class_has_no_side_is_told_to_register():
    class Session:
        pass

    with pytest.raises(InvalidUseError, match=r"adelta\.spark\.register\(spark\)"):
        side_of(Session())
