"""The counting engine and its peers, each pair of sides a group: `python -m pytest benchmarks/bench_ngram.py`.

Penn Treebank where `LMZOO_DATA` names the corpora, else made-up text; KenLM's programs where `KENLM_BIN` names their
folder; what is not here is skipped with how to get it.  Every round gets a text with another line changed.  A round of
nltk deals with fewer tokens than one of lmzoo: compare the rates in `extra_info`.  For ratios take
`python -m benchmarks.peers`, which lets the two sides run in turn.
"""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.contests import CONTESTS, Contest, Side, load_compiled_code
from benchmarks.workbench import Workbench

SIDES = [
    pytest.param(contest, side, id=f"{contest.what}: {side.name}")
    for contest in CONTESTS
    for side in (contest.ours, contest.theirs)
]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    load_compiled_code()
    return Workbench(tmp_path_factory.mktemp("bench"))


# made-up text is too small for every discount
@pytest.mark.filterwarnings("ignore::lmzoo.ngram.discounts.DiscountWarning")
@pytest.mark.parametrize(("contest", "side"), SIDES)
def test_contest(benchmark: Any, bench: Workbench, contest: Contest, side: Side) -> None:
    reason = contest.missing() if side is contest.theirs else None
    if reason is not None:
        pytest.skip(reason)
    benchmark.group = contest.what
    n_items = benchmark.pedantic(
        lambda act: act(),
        setup=lambda: ((side.prepare(bench, bench.variant()),), {}),
        rounds=contest.rounds,
        warmup_rounds=1,
    )
    assert n_items > 0
    # under --benchmark-disable nothing was timed
    if benchmark.stats:
        benchmark.extra_info[f"{contest.per}s_per_s"] = n_items / benchmark.stats["median"]
