"""What all tests share: the corpora outside the repository, and which tests this machine can run."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import hypothesis
import pytest

# variables under which a skip is a failure, and what the reasons of such skips name
_REQUIRED = {"LMZOO_REQUIRE_DATA": ("LMZOO_DATA", "LMZOO_GOLDEN"), "LMZOO_REQUIRE_BROWSER": ("no browser",)}

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

# the same examples in every run: a test that fails, fails again
# test_rules.py runs tests of other files once more, on instances of its own
hypothesis.settings.register_profile(
    "thorough",
    max_examples=40,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.differing_executors],
)
# the laws are tried thoroughly on one interpreter; the others see whether they hold there too
hypothesis.settings.register_profile("lean", hypothesis.settings.get_profile("thorough"), max_examples=15)
hypothesis.settings.load_profile(os.environ.get("LMZOO_LAWS", "thorough"))


def _folder(variable: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} names no folder")
    return Path(value)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of reference corpora, `LMZOO_DATA`."""
    return _folder("LMZOO_DATA")


@pytest.fixture(scope="session")
def golden_folder() -> Path:
    """The folder of figures that other toolkits gave, `LMZOO_GOLDEN`."""
    return _folder("LMZOO_GOLDEN")


def pytest_runtest_setup(item: pytest.Item) -> None:
    needs_torch = item.get_closest_marker("torch") or item.get_closest_marker("gpu")
    if needs_torch and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    if item.get_closest_marker("browser") and (why := _no_browser()):
        pytest.skip(f"no browser: {why}")
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip(f"no CUDA device (torch {torch.__version__})")


def _no_browser() -> str:
    """Why tests in a browser cannot run, with the cure; empty where they can."""
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed: python -m pip install 'lmzoo[browser]'"
    from benchmarks.page import browser_path

    return "" if browser_path() else "no Chromium is on the PATH: apt-get install chromium"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _as_required((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _as_required((yield))


def _as_required(report: Report) -> Report:
    """Where `LMZOO_REQUIRE_DATA` is set, a skip for want of the corpora is a failure; likewise for the browser."""
    reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    for variable, wanting in _REQUIRED.items():
        if os.environ.get(variable) and any(want in reason for want in wanting):
            report.outcome = "failed"
            report.longrepr = f"{variable} is set, but: {reason}"
    return report
