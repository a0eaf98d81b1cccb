"""Each rule of measuring is broken, and its test has to notice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.rules import RULES, Rule

# each rule takes a run of pytest
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
# what the tests of a rule need not share with the tests around them
PLAIN = ("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:cov", "-p", "no:benchmark")


class Breaking:
    """A plugin that breaks a rule around each test, and keeps what the tests raise of it."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self.raised: list[type[BaseException]] = []

    @pytest.fixture(autouse=True)
    def _broken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._rule.breach(monkeypatch)

    def pytest_exception_interact(self, call: pytest.CallInfo[None]) -> None:
        assert call.excinfo is not None
        self.raised.append(call.excinfo.type)


@pytest.mark.parametrize(
    "rule",
    [pytest.param(r, marks=pytest.mark.torch if r.needs_torch else (), id=r.says.replace(" ", "-")) for r in RULES],
)
def test_a_broken_rule_is_noticed(rule: Rule, capsys: pytest.CaptureFixture[str]) -> None:
    breaking = Breaking(rule)
    code = pytest.main([str(ROOT / rule.test), f"--rootdir={ROOT}", "-q", "-x", *PLAIN], plugins=[breaking])
    told = capsys.readouterr().out
    assert code == pytest.ExitCode.TESTS_FAILED, told
    # a breach that breaks more than its rule would be noticed by anything
    assert all(issubclass(kind, AssertionError | pytest.fail.Exception) for kind in breaking.raised), told


def test_every_section_of_the_rules_has_some() -> None:
    text = (ROOT / "docs" / "measuring.md").read_text(encoding="utf-8")
    assert {rule.section for rule in RULES} == set(re.findall(r"^## (.+)$", text, re.MULTILINE))
