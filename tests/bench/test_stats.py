"""Intervals cover, tests hold their level; Holm and the rules for seeds and targets are the arithmetic they claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import stats, student
from tests.bench.synthetic import curve

INF = math.inf


def one(values: list[float]) -> stats.Floats:
    return np.array([values], np.float64)


def tokens(n_blocks: int, each: float = 200.0) -> stats.Floats:
    return np.full(n_blocks, each)


# --- Student's t: figures of any printed table


@pytest.mark.parametrize(("df", "t"), [(1, 12.7062), (2, 4.30265), (5, 2.57058), (30, 2.04227), (99, 1.98422)])
def test_quantiles_of_student_t(df: int, t: float) -> None:
    assert student.student_t_quantile(df) == pytest.approx(t, abs=5e-5)


@given(st.floats(0.0, 50.0), st.floats(0.5, 500.0))
def test_p_falls_with_t_and_is_a_probability(t: float, df: float) -> None:
    p = student.student_t_p(t, df)
    assert 0 <= p <= 1
    assert student.student_t_p(t + 1, df) <= p
    assert student.student_t_p(-t, df) == p


def test_one_degree_of_freedom_is_the_cauchy_distribution() -> None:
    # P(|T| > 1) = 1 - 2 atan(1) / pi = 1/2
    assert student.student_t_p(1.0, 1) == pytest.approx(0.5)


# --- intervals


def test_blocks_that_are_all_alike_leave_no_doubt() -> None:
    interval = stats.perplexity_interval(one([2.0 * 200] * 60), tokens(60))
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((math.exp(2.0), math.exp(2.0)))


def test_the_perplexity_lies_in_its_interval_and_the_call_is_deterministic() -> None:
    nats = np.random.default_rng(0).normal(400, 30, (1, 80))
    first = stats.perplexity_interval(nats, tokens(80))
    assert first == stats.perplexity_interval(nats, tokens(80))
    assert first is not None
    assert first.low < math.exp(nats.sum() / (80 * 200)) < first.high


def test_blocks_count_by_their_tokens() -> None:
    # one block holds 90 % of the tokens: (1*10 + 3*90)/100 = 2.8 nats, not the mean of 1 and 3
    nats, lengths = one([10.0, 270.0] * 50), np.array([10.0, 90.0] * 50)
    interval = stats.perplexity_interval(nats, lengths)
    assert interval is not None
    assert interval.low < math.exp(2.8) < interval.high
    assert interval.low > math.exp(2.5)


@pytest.mark.parametrize("nats", [[INF, 400.0, 400.0], [400.0]])
def test_infinite_and_single_blocks_have_no_interval(nats: list[float]) -> None:
    assert stats.perplexity_interval(one(nats), tokens(len(nats))) is None


@pytest.mark.parametrize("sizes", [[2.0, 0.0], [0.0, 2.0], [0.0, 0.0, 3.0], [0.0, 0.0]])
def test_of_fewer_than_two_blocks_with_a_size_there_is_no_interval(sizes: list[float]) -> None:
    assert stats.cost_interval(one([4.0] * len(sizes)), np.array(sizes)) is None


def test_a_block_without_a_size_counts_with_its_neighbour() -> None:
    nats = np.random.default_rng(5).normal(400, 20, (3, 60))
    joined = nats.copy()
    joined[:, [0, 20, 59]] += 7.0
    sizes, places = tokens(60), [0, 21, 60]
    apart = np.insert(nats, places, 7.0, axis=1)
    assert stats.cost_interval(apart, np.insert(sizes, places, 0.0)) == stats.cost_interval(joined, sizes)


def test_seeds_that_differ_widen_the_interval() -> None:
    blocks = np.random.default_rng(1).normal(400, 10, 100)
    alike = stats.perplexity_interval(np.array([blocks] * 3), tokens(100))
    apart = stats.perplexity_interval(np.array([blocks - 20, blocks, blocks + 20]), tokens(100))
    assert alike is not None
    assert apart is not None
    assert apart.high - apart.low > 2 * (alike.high - alike.low)


@pytest.mark.parametrize("n_blocks", [20, 100])
def test_intervals_cover_the_truth(n_blocks: int) -> None:
    """400 corpora whose expected nats per token are 2: within 3 standard errors (3.3 points) of 95 %."""
    rng = np.random.default_rng(n_blocks)
    lengths = rng.integers(20, 60, n_blocks).astype(np.float64)
    covered = 0
    for _ in range(400):
        interval = stats.perplexity_interval(rng.gamma(lengths * 0.3, 1 / 0.15)[None], lengths, n_resamples=500)
        assert interval is not None
        covered += interval.low <= math.exp(2.0) <= interval.high
    assert 0.917 <= covered / 400 <= 0.983


def covered_with_seeds(n_seeds: int, share: float, n_corpora: int) -> float:
    """How often the truth, 400 nats a block, is held where the seeds make up `share` of the variance of their mean."""
    rng = np.random.default_rng([n_seeds, n_corpora])
    covered = 0
    for _ in range(n_corpora):
        of_seeds_Sx1 = rng.normal(0, math.sqrt(share * n_seeds), (n_seeds, 1))
        blocks_B = rng.normal(400, 10 * math.sqrt(1 - share), 100)
        interval = stats.ratio_interval(blocks_B + of_seeds_Sx1, np.ones(100), n_resamples=200)
        assert interval is not None
        covered += interval.low <= 400 <= interval.high
    return covered / n_corpora


@pytest.mark.parametrize("share", [0.25, 0.75, 0.9])
def test_intervals_cover_the_mean_of_two_seeds_whatever_they_make_up(share: float) -> None:
    # 93 to 97 %, and 3 standard errors of 600 corpora (2.1 to 3.1 points)
    assert 0.899 <= covered_with_seeds(2, share, 600) <= 0.991


def test_two_seeds_are_too_few_for_the_degrees_of_freedom_of_satterthwaite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "_cubed", lambda share, _df: share * share)
    assert covered_with_seeds(2, 0.9, 600) < 0.899


def margins_of_seeds(nats_SxB: stats.Floats) -> tuple[float, float]:
    """Half the width of the interval, and half that of Student's t interval of the seeds' means by themselves."""
    interval = stats.ratio_interval(nats_SxB, np.ones(nats_SxB.shape[1]))
    assert interval is not None
    error = nats_SxB.mean(axis=1).std(ddof=1) / math.sqrt(len(nats_SxB))
    return (interval.high - interval.low) / 2, student.student_t_quantile(len(nats_SxB) - 1) * error


def test_what_each_seed_has_of_its_own_in_each_block_is_counted_once() -> None:
    """Nothing is common to the seeds but the text's mean: counted twice, the margin would be sqrt(2) = 1.41 times."""
    ratios = []
    for n in range(20):
        margin, of_seeds = margins_of_seeds(np.random.default_rng(n).normal(400, 20, (8, 100)))
        ratios.append(margin / of_seeds)
    assert 0.9 < np.mean(ratios) < 1.15


def test_what_is_common_to_the_seeds_is_counted_with_the_blocks() -> None:
    blocks_B = np.random.default_rng(1).normal(400, 20, 100)
    one_seed = stats.ratio_interval(blocks_B[None], np.ones(100))
    three = stats.ratio_interval(np.array([blocks_B] * 3), np.ones(100))
    assert one_seed is not None
    assert three is not None
    assert (three.low, three.high) == pytest.approx((one_seed.low, one_seed.high))


def test_joined_blocks_keep_every_nat() -> None:
    values = np.random.default_rng(2).normal(size=(2, 2503))
    joined = stats.join_blocks(values, 100)
    assert joined.shape == (2, 100)
    assert joined.sum(axis=1) == pytest.approx(values.sum(axis=1))


# --- paired tests


def test_equal_models_are_called_different_in_about_5_percent() -> None:
    """Equal expected nats, other nats in each block, a shared difficulty of the text; 3 standard errors allowed."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(20, 60, 60).astype(np.float64)
    rejected = 0
    for _ in range(600):
        difficulty = rng.gamma(lengths, 2.0)
        a, b = (difficulty + rng.gamma(lengths * 0.2, 1.0) for _ in "ab")
        p = stats.paired_test(a[None], b[None], lengths).p
        assert p is not None
        rejected += p < 0.05
    assert rejected / 600 <= 0.077


def test_equal_recipes_under_few_seeds_are_not_called_different() -> None:
    """Seeds shift a whole model: a test over blocks alone would call nearly every pair different."""
    rng = np.random.default_rng(4)
    rejected = 0
    for _ in range(300):
        a, b = (400 + rng.normal(0, 4, (3, 1)) + rng.normal(0, 4, (3, 80)) for _ in "ab")
        p = stats.paired_test(a, b, tokens(80)).p
        assert p is not None
        rejected += p < 0.05
    assert rejected / 300 <= 0.09


def test_pairing_finds_what_separate_intervals_cannot() -> None:
    rng = np.random.default_rng(5)
    difficulty = rng.normal(400, 60, 100)
    a, b = difficulty[None], (difficulty + 2 + rng.normal(0, 1, 100))[None]
    intervals = [stats.perplexity_interval(nats, tokens(100)) for nats in (a, b)]
    assert intervals[0] is not None
    assert intervals[1] is not None
    assert intervals[0].high > intervals[1].low
    test = stats.paired_test(a, b, tokens(100))
    assert test.verdict(test.p) == "a"


def test_swapping_the_models_mirrors_the_test() -> None:
    rng = np.random.default_rng(6)
    a, b = rng.normal(400, 20, (2, 70)), rng.normal(405, 20, (3, 70))
    forth, back = stats.paired_test(a, b, tokens(70)), stats.paired_test(b, a, tokens(70))
    assert forth.diff == pytest.approx(-back.diff)  # type: ignore[operator]
    assert (forth.low, forth.high) == pytest.approx((-back.high, -back.low))  # type: ignore[operator]
    assert forth.p == pytest.approx(back.p)


def test_the_interval_of_a_difference_agrees_with_its_p() -> None:
    rng = np.random.default_rng(7)
    for shift in (0.0, 3.0, 5.0, 8.0):
        test = stats.paired_test(rng.normal(400, 20, (1, 90)) + shift, rng.normal(400, 20, (1, 90)), tokens(90))
        assert test.p is not None
        assert (test.p < 0.05) == (not test.low <= 0 <= test.high)  # type: ignore[operator]


def test_a_model_against_itself_is_a_tie() -> None:
    nats = np.random.default_rng(8).normal(400, 20, (1, 50))
    test = stats.paired_test(nats, nats, tokens(50))
    assert (test.diff, test.p, test.verdict(test.p)) == (0.0, 1.0, "~")


def test_a_constant_difference_is_certain() -> None:
    nats = np.random.default_rng(9).normal(400, 20, (1, 50))
    test = stats.paired_test(nats, nats + 10, tokens(50))
    assert test.verdict(test.p) == "a"
    assert test.diff == pytest.approx(-10 / 200)


def test_one_block_shows_a_difference_but_no_spread() -> None:
    test = stats.paired_test(one([400.0]), one([300.0]), tokens(1))
    assert test.diff == pytest.approx(0.5)
    assert (test.p, test.verdict(test.p)) == (None, "~")


@pytest.mark.parametrize("n_infinite", [1, 5, 40])
@pytest.mark.parametrize("others", [100.0, 400.0, 900.0])
def test_one_impossible_token_decides_for_the_other_model_whatever_the_other_blocks_say(
    n_infinite: int, others: float
) -> None:
    nats = np.full((1, 40), 400.0)
    infinite = np.full((1, 40), others)
    infinite[0, :n_infinite] = INF
    test = stats.paired_test(infinite, nats, tokens(40))
    assert (test.diff, test.p, test.verdict(test.p)) == (INF, 0.0, "b")
    mirrored = stats.paired_test(nats, infinite, tokens(40))
    assert (mirrored.diff, mirrored.p, mirrored.verdict(mirrored.p)) == (-INF, 0.0, "a")


def test_a_text_of_one_block_tells_what_is_impossible_and_nothing_else() -> None:
    test = stats.paired_test(one([INF]), one([300.0]), tokens(1))
    assert test.verdict(test.p) == "b"


def test_two_infinite_models_are_not_told_apart() -> None:
    test = stats.paired_test(one([INF, 1.0, 1.0]), one([INF, INF, INF]), tokens(3))
    assert (test.diff, test.p, test.verdict(None)) == (None, None, "~")


# --- values of processes


def test_the_test_of_unpaired_values_by_hand() -> None:
    test = stats.unpaired_test([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    # either mean has variance 1/3 with 2 degrees of freedom, so that t^2 = 9 / (2/3); for Student's t with 2 of them
    # p = 1 - t / sqrt(2 + t^2)
    assert test.diff == -3.0
    assert test.p == pytest.approx(1 - math.sqrt(13.5 / 15.5), rel=1e-9)


@pytest.mark.parametrize(("a", "b"), [([1.0], [2.0, 3.0]), ([1.0, 2.0], [3.0]), ([1.0], [1.0])])
def test_a_single_value_has_no_spread_to_test_with(a: list[float], b: list[float]) -> None:
    assert stats.unpaired_test(a, b).p is None


@pytest.mark.parametrize(("n_a", "n_b"), [(2, 2), (3, 5), (5, 5)])
def test_values_of_one_distribution_are_called_different_in_at_most_5_percent(n_a: int, n_b: int) -> None:
    rng = np.random.default_rng([n_a, n_b])
    p_values = [
        stats.unpaired_test(rng.normal(0, 1, n_a).tolist(), rng.normal(0, 1, n_b).tolist()).p for _ in range(1000)
    ]
    share = sum(p is not None and p <= student.LEVEL for p in p_values) / len(p_values)
    # 1,000 draws at a level of 5 % have a standard error of 0.7 %
    assert share < 0.05 + 3 * 0.007


# --- Holm


def test_holm_by_hand() -> None:
    # ascending 0.01, 0.03, 0.04 times 3, 2, 1 = 0.03, 0.06, 0.04; never below the one before: 0.03, 0.06, 0.06
    assert stats.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=30))
def test_holm_lies_between_no_correction_and_bonferroni(p_values: list[float | None]) -> None:
    corrected = stats.holm(p_values)
    n = sum(p is not None for p in p_values)
    assert [p is None for p in p_values] == [c is None for c in corrected]
    pairs = [(p, c) for p, c in zip(p_values, corrected, strict=True) if p is not None and c is not None]
    assert all(p <= c <= 1 for p, c in pairs)
    if pairs:
        smallest = min(pairs)
        assert smallest[1] == pytest.approx(min(1.0, n * smallest[0]))
    assert [c for _, c in sorted(pairs)] == sorted(c for _, c in pairs)


# --- targets


def test_a_target_is_hit_between_two_validations() -> None:
    points = curve([9.0, 5.0, 4.0])
    found = stats.first_crossing(points, 5.0)
    assert (found.reached, found.after_s, found.by_s) == (True, points[0].train_s, points[1].train_s)
    assert (found.after_wall_s, found.by_wall_s) == (points[0].wall_s, points[1].wall_s)
    assert found.train_tokens == points[1].train_tokens


def test_before_the_first_validation_the_bracket_starts_at_zero() -> None:
    assert stats.first_crossing(curve([4.0]), 5.0).after_s == 0.0


def test_a_miss_is_infinite_and_tells_the_last_validation() -> None:
    points = curve([9.0, 8.0])
    found = stats.first_crossing(points, 1.0)
    assert (found.reached, found.after_s, found.by_s) == (False, points[1].train_s, INF)
    assert (found.after_wall_s, found.by_wall_s) == (points[1].wall_s, INF)


def test_an_infinite_validation_reaches_nothing_and_no_validation_is_a_miss() -> None:
    assert not stats.first_crossing(curve([INF]), 5.0).reached
    assert stats.first_crossing((), 5.0) == stats.Crossing(
        reached=False, after_s=0.0, by_s=INF, after_wall_s=0.0, by_wall_s=INF, train_tokens=None
    )


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([3.0], 3.0),
        ([1.0, 2.0], 1.5),
        ([1.0, INF, 2.0], 2.0),
        ([1.0, INF], INF),
        # five: 1 and inf are dropped, (2 + 3 + 7) / 3 = 4
        ([7.0, 1.0, INF, 2.0, 3.0], 4.0),
        ([7.0, 1.0, INF, INF, 3.0], INF),
    ],
)
def test_several_seeds_become_one_time(times: list[float], expected: float) -> None:
    assert stats.over_seeds(times) == expected


@pytest.mark.parametrize(("nats_a_token", "verdict"), [(1.4e-8, "~"), (0.9e-6, "~"), (1.1e-6, "b"), (-1.1e-6, "a")])
def test_differences_below_a_millionth_of_a_nat_are_none(nats_a_token: float, verdict: str) -> None:
    rng = np.random.default_rng(3)
    tokens_B = np.full(100, 200.0)
    b_SxB = 200 * rng.normal(1.5, 0.1, (1, 100))
    # the same hair in every block, give or take a tenth: the test is as sure as nine degrees of freedom can be
    test = stats.paired_test(b_SxB + 200 * nats_a_token * rng.normal(1, 0.1, (1, 100)), b_SxB, tokens_B)
    assert test.p is not None
    assert test.p < 1e-12
    assert test.verdict(test.p) == verdict


def test_no_interval_of_a_cost_goes_below_nothing() -> None:
    # two blocks, one of which costs nearly nothing: the ratio's own interval would begin below 0
    nats, n_tokens = np.array([[1e-3, 8.0]]), np.array([4.0, 4.0])
    ratio = stats.ratio_interval(nats, n_tokens)
    assert ratio is not None
    assert ratio.low < 0
    assert stats.cost_interval(nats, n_tokens) == stats.Interval(0.0, ratio.high)
    perplexity = stats.perplexity_interval(nats, n_tokens)
    assert perplexity is not None
    assert perplexity.low == 1.0
