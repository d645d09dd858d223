"""Tables that other engines wrote, read as their writers say they must be.

The pack of tables is not part of this repository: `ADELTA_CONFORMANCE` names its folder, and by
default it is looked for beside the checkout. Where it is not there, these tests are skipped.
"""

from __future__ import annotations

import importlib.util
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from adelta.errors import UnsupportedFeatureError

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "conformance"
PACK = Path(os.environ.get("ADELTA_CONFORMANCE", BESIDE))

# What their own lists of features forbid to be read, whatever they hold: reader version 5 does not
# exist, and nobody knows the feature `blahabl`.
REFUSED = {"delta-rs/simple_table_features"}

pytestmark = pytest.mark.skipif(
    not (PACK / "tables.tar.gz").exists(), reason=f"there is no pack of tables in {PACK}"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("conformance")
    with tarfile.open(PACK / "tables.tar.gz") as pack:
        pack.extractall(folder, filter="data")
    return folder / "conformance"


@pytest.fixture(scope="module")
def runner() -> Any:
    """The pack's own program, so that it and this test cannot differ."""
    spec = importlib.util.spec_from_file_location("conformance_run", PACK / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_table_is_read_rightly_or_refused_by_name(root: Path, runner: Any) -> None:
    cases = json.loads((root / "oracle.json").read_text())["cases"]
    wrong, refused = [], set()
    for case in cases:
        for name, check in runner.run_case(case, str(root)):
            try:
                check()
            except UnsupportedFeatureError:
                refused.add(case["id"])
            except Exception as error:
                wrong.append(f"{case['id']} [{name}]: {error}")
    assert not wrong, "\n".join(wrong)
    assert len(cases) >= 245
    assert refused <= REFUSED, f"refused, and need not be: {sorted(refused - REFUSED)}"
