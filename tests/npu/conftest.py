from __future__ import annotations

import pytest

from tests.npu.standin import StandIn, build, have_compiler


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> StandIn:
    """The stand-in for CANN, built once per session (also where other folders' tests import this fixture)."""
    if not have_compiler():
        pytest.skip("no C++ compiler (g++ or clang++) on PATH: the stand-in for CANN can't be built")
    return build(tmp_path_factory.getbasetemp() / "standin")
