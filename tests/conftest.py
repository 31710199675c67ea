"""Tests leave the user's own cache of compiled programs alone and heed none of their own variables;
no clock decides about one."""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

for name in [name for name in os.environ if name.startswith("WEFT_")]:
    del os.environ[name]  # before tests' own options are made, as they are imported
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # of NumPy and PyTorch, the oracles:
    os.environ.setdefault(name, "1")  # their threads spin, where others test on all processors

settings.register_profile("weft", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("weft")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="the tests that take long, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without ``--all``, what is marked as long is left out, unless a command names the file or
    the test."""
    named = [Path(argument.split("::")[0]) for argument in config.args]
    if config.getoption("--all") or not all(path.is_dir() for path in named):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    left_out = set(long)
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: no collection of garbage need look at them again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory):
    """Folders of this test session for caches and records (those of each worker process of xdist
    are its own)."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        yield
