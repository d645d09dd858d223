"""Packages of adelta travel by name with functions that use them, as Spark sends these to tasks."""

from __future__ import annotations

import pickle

import pytest

import adelta
import adelta.sync


@pytest.mark.parametrize("package", [adelta, adelta.sync])
def test_a_package_is_pickled_by_its_name(package):
    assert pickle.loads(pickle.dumps(package)) is package
