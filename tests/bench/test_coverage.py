"""The simulations of the statistics, small: what is expected is exact, the bands hold, and what is broken falls out."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from bench.quality import blocks_record, shared_out
from bench.stats import Floats, Interval, PairTest, paired_test, ratio_interval
from benchmarks import coverage as pages
from benchmarks import known_truth
from benchmarks.known_truth import MEASURES, Setting, coverage, mirror_level, population_of
from benchmarks.simulated import ALPHABET, Ids, Layout, Trained, plain_source, sticky_source, text_of, trained
from lmzoo.corpus import encode_split
from lmzoo.evaluation import tally_of, token_nats
from lmzoo.expectation import expected_nats

N_CORPORA = 120
# 120 corpora: 3 standard errors around 95 %
BAND = (0.89, 0.995)
SHORT = Layout(n_documents=1, lengths=(2_000,))
PAIRS = Layout(n_documents=2, lengths=(3, 5))


@lru_cache
def population(setting: Setting, size: int) -> list[Trained]:
    return population_of(setting, size, np.random.default_rng(0))


@pytest.fixture(autouse=True)
def small_population(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are trained once for all tests of a setting."""
    monkeypatch.setattr(known_truth, "population_of", lambda setting, _size, _rng: population(setting, 20))


PLAIN = Setting(name="plain", source=plain_source(), layout=SHORT)
STICKY = Setting(name="sticky", source=sticky_source(), layout=SHORT, spec="unigram")
SYMMETRIC = Setting(name="symmetric", source=plain_source(symmetric=True), layout=SHORT)


def covered(
    setting: Setting, interval_of: known_truth.IntervalOf = ratio_interval, n_corpora: int = N_CORPORA
) -> dict[str, float]:
    found = coverage(setting, n_corpora, 0, interval_of)
    return {name: n / n_corpora for name, n in found.n_covered.items()}


def at_most(share: float, n_corpora: int) -> float:
    """The share that chance allows where it is expected to be at most so much: 3 standard errors more."""
    return share + 3 * math.sqrt(share * (1 - share) / n_corpora)


# --- what is expected


@pytest.mark.parametrize("unknown", ["", "o"])
def test_what_a_model_is_expected_to_cost_is_exact(unknown: str) -> None:
    """All 10^3 strings of three symbols, scored as documents, each as often as the source gives it."""
    source, layout = plain_source(), Layout(n_documents=1, lengths=(3,))
    one = trained("trigram", source, layout, 400, np.random.default_rng(1), unknown=unknown)
    strings = [np.array(s) for s in itertools.product(range(10), repeat=3)]
    split = encode_split("test", [text_of(s) for s in strings], one.model.vocab, "file")
    nats_N = token_nats(one.model, split)
    p_N = np.repeat(source.joint_of(3), 3)
    assert one.expected.nats_per_token == pytest.approx(float(p_N @ nats_N) / 3, rel=1e-12)
    known_N = split.ids_N != split.vocab.unk_id
    per_known = float((p_N * nats_N)[known_N].sum() / p_N[known_N].sum())
    assert one.expected.nats_per_known_token == pytest.approx(per_known, rel=1e-12)
    spelling_N = np.zeros(split.n_tokens)
    spelling_N[split.oov_M] = split.spelling_nats_M
    bits = float(p_N @ (nats_N + spelling_N)) / math.log(2)
    assert one.expected.bits_per_char == pytest.approx(bits / 3, rel=1e-12)
    bytes_N = np.array([len(ALPHABET[i].encode()) for s in strings for i in s])
    assert one.expected.bits_per_byte == pytest.approx(bits / float(p_N @ bytes_N), rel=1e-12)


def test_expectations_agree_with_those_of_the_source_itself() -> None:
    source, layout = plain_source(), Layout(n_documents=1, lengths=(7,))
    one = trained("trigram", source, layout, 400, np.random.default_rng(1))
    # the chain by itself has letters for symbols: the same numbers under other names
    vocab = one.model.vocab
    signs = source.alphabet
    renamed = replace(vocab, tokens=tuple(signs[ALPHABET.index(t)] if t in ALPHABET else t for t in vocab.tokens))
    object.__setattr__(one.model, "vocab", renamed)
    assert expected_nats(one.model, source, length=7) == pytest.approx(one.expected.nats_per_token, rel=1e-12)


def test_a_mirrored_text_costs_the_mirror_image_as_much() -> None:
    """Equal by construction: over all strings the expected nats of text and mirrored text are the same."""
    source = plain_source(symmetric=True)
    one = trained("trigram", source, PAIRS, 400, np.random.default_rng(2))
    strings = [np.array(s) for s in itertools.product(range(10), repeat=3)]
    costs = []
    for these in (strings, [source.exchanged(s) for s in strings]):
        split = encode_split("test", [text_of(s) for s in these], one.model.vocab, "file")
        costs.append(token_nats(one.model, split))
    p_N = np.repeat(source.joint_of(3), 3)
    assert float(p_N @ costs[0]) == pytest.approx(float(p_N @ costs[1]), rel=1e-12)
    assert not np.allclose(costs[0], costs[1])


def test_texts_have_the_lengths_of_their_layout_and_blocks_are_those_of_a_record() -> None:
    texts = list(PAIRS.draw(plain_source(), 30, np.random.default_rng(3)))
    assert [len(documents) for documents in texts] == [2] * 30
    assert {len(ids_L) for documents in texts for ids_L in documents} == {3, 5}
    one = trained("bigram", plain_source(), PAIRS, 400, np.random.default_rng(4))
    split = encode_split("test", [text_of(ids_L) for ids_L in texts[0]], one.model.vocab, "file")
    nats_N = token_nats(one.model, split)
    assert one.blocks(texts[0]) == blocks_record(split, nats_N, tally_of(one.model, split, nats_N))


# --- intervals


def test_intervals_cover_the_truth() -> None:
    found = covered(PLAIN)
    assert set(found) == {"perplexity", "bits/byte"}
    assert all(BAND[0] <= share <= BAND[1] for share in found.values())


def test_intervals_cover_with_unknown_symbols_in_every_measure() -> None:
    found = covered(replace(PLAIN, name="unknown", unknown="o"))
    assert set(found) == {measure.name for measure in MEASURES}
    assert all(BAND[0] <= share <= BAND[1] for share in found.values())


@pytest.mark.whole
def test_intervals_cover_where_blocks_depend_on_each_other_and_single_blocks_do_not() -> None:
    # 250 corpora: 3 standard errors below 95 %
    least = 0.908
    assert least <= covered(STICKY, n_corpora=250)["perplexity"] <= BAND[1]
    assert covered(STICKY, pages.single_blocks_interval, n_corpora=250)["perplexity"] < least


def test_intervals_cover_the_mean_over_seeds() -> None:
    assert covered(replace(PLAIN, n_seeds=3), n_corpora=60)["perplexity"] >= BAND[0]


def scaled(factor: float) -> known_truth.IntervalOf:
    """Intervals made wider or narrower about their middle."""

    def interval_of(values_SxB: Floats, sizes_B: Floats) -> Interval:
        interval = ratio_interval(values_SxB, sizes_B)
        assert interval is not None
        middle, half = (interval.low + interval.high) / 2, factor * (interval.high - interval.low) / 2
        return Interval(middle - half, middle + half)

    return interval_of


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_intervals_half_or_twice_as_wide_fall_out_of_the_band(factor: float) -> None:
    found = covered(PLAIN, scaled(factor), n_corpora=80)
    # of 80 corpora every one is covered by twice the width
    assert not any(BAND[0] <= share <= BAND[1] for share in found.values())


# --- tests of pairs


def unstudentised(a_SxB: Floats, b_SxB: Floats, tokens_B: Floats) -> PairTest:
    """A test without the division by the standard error: any difference of one part in a thousand counts."""
    test = paired_test(a_SxB, b_SxB, tokens_B)
    assert test.diff is not None
    return replace(test, p=0.0 if abs(test.diff) > 1e-3 * a_SxB.sum() / tokens_B.sum() else 1.0)


@pytest.mark.whole
def test_a_model_and_its_mirror_image_are_seldom_called_different() -> None:
    assert mirror_level(SYMMETRIC, N_CORPORA, 0).n_called / N_CORPORA <= at_most(0.05, N_CORPORA)
    # and without the division by the standard error often
    assert mirror_level(SYMMETRIC, 50, 0, unstudentised).n_called / 50 > at_most(0.05, 50)


def test_the_level_holds_where_one_has_longer_tokens() -> None:
    assert known_truth.longer_tokens_level(SYMMETRIC, N_CORPORA, 0).n_called / N_CORPORA <= at_most(0.05, N_CORPORA)

    def losing(nats_N: Floats, places_N1: Floats, bounds_P1: Ids) -> Floats:
        return 0.95 * shared_out(nats_N, places_N1, bounds_P1)

    # what loses a twentieth of the nats is caught
    assert known_truth.longer_tokens_level(SYMMETRIC, 40, 0, losing).n_called / 40 > at_most(0.05, 40)


@pytest.mark.whole
def test_holm_holds_the_level_over_a_family_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_truth, "FAMILY", 4)
    assert known_truth.family_level(SYMMETRIC, 40, 0).n_called / 40 <= at_most(0.05, 40)
    # each of the four by itself would be called different more often
    monkeypatch.setattr(known_truth, "holm", lambda p_values: [None if p is None else p / 5 for p in p_values])
    assert known_truth.family_level(SYMMETRIC, 40, 0).n_called / 40 > at_most(0.05, 40)


def test_one_recipe_under_other_seeds_is_seldom_called_different() -> None:
    assert known_truth.seeds_level(PLAIN, 3, 60, 0).n_called / 60 <= at_most(0.05, 60)


def test_a_difference_is_found_its_opposite_never_and_separate_intervals_miss_it() -> None:
    found = known_truth.power(SYMMETRIC, 2_400, 30, 0)
    assert found.diff_nats > 0.02
    assert found.n_found > 2 * found.n_apart
    assert found.n_wrong == 0


# --- the page


@pytest.mark.whole
def test_the_page_has_a_line_for_each_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "coverage_settings", lambda: [PLAIN, STICKY, replace(PLAIN, n_seeds=2)])
    monkeypatch.setattr(pages, "level_settings", lambda: [SYMMETRIC])
    lines = list(pages.page(4, 0))
    tables = [len([line for line in part if line.startswith("| ")]) for part in _parts(lines)]
    # the head and: 3 settings and the rejected one; 1 mirror, 1 in longer tokens, 1 family, 3 numbers of seeds; 3 sizes
    assert tables == [1 + 4, 1 + 6, 1 + 3]
    assert "the same" in "\n".join(lines)
    assert all(len(line) <= 200 for line in lines)


def _parts(lines: list[str]) -> list[list[str]]:
    heads = [place for place, line in enumerate(lines) if line.startswith("## ")]
    return [lines[start:end] for start, end in itertools.pairwise([*heads, len(lines)])]
