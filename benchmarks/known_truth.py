"""Simulations whose truth is known: how often intervals hold it, equal models are told apart, differences are found.

Texts are cut into blocks and put through the statistics of the report, exactly as the test text of a trial is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.quality import piece_bounds, shared_out
from bench.stats import Floats, Interval, PairTest, Verdict, holm, paired_test, ratio_interval
from benchmarks.simulated import Expected, Ids, Layout, Trained, plain_source, sticky_source, trained
from lmzoo.markov import MarkovSource

# the models that stand for all that a recipe may give under other seeds
POPULATION = 200
_N_TRAIN = 1500
# pairs that are corrected together
FAMILY = 10
# symbols of the longest token, where tokens are longer than one
_LONGEST_TOKEN = 8

IntervalOf = Callable[[Floats, Floats], Interval | None]
TestOf = Callable[[Floats, Floats, Floats], PairTest]
# from nats of tokens, where they stand, and bounds to the nats between these
ShareOut = Callable[[Floats, Floats, Ids], Floats]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A kind of text and a model of it."""

    name: str
    source: MarkovSource = field(repr=False)
    layout: Layout
    spec: str = "trigram"
    n_train: int = _N_TRAIN
    unknown: str = ""
    n_seeds: int = 1


_ONE_SHORT = Layout(n_documents=1, lengths=(2_000,))
_ONE_LONG = Layout(n_documents=1, lengths=(20_000,))
_HUNDREDS = Layout(n_documents=300, lengths=(20, 40, 60))
_THOUSANDS = Layout(n_documents=2_500, lengths=(4, 8, 12))


def coverage_settings() -> list[Setting]:
    """Where intervals are tried."""
    plain, sticky = plain_source(), sticky_source()
    settings = [
        Setting(name="one document of 2,000 tokens", source=plain, layout=_ONE_SHORT),
        Setting(name="one document of 20,000 tokens", source=plain, layout=_ONE_LONG),
        Setting(name="300 documents of 20 to 60 tokens", source=plain, layout=_HUNDREDS),
        Setting(name="2,500 documents of 4 to 12 tokens, joined", source=plain, layout=_THOUSANDS),
        Setting(name="one of 20,000, a symbol unknown", source=plain, layout=_ONE_LONG, unknown="o"),
        Setting(name="sticky, one of 2,000", source=sticky, layout=_ONE_SHORT, spec="unigram"),
        Setting(name="sticky, one of 20,000", source=sticky, layout=_ONE_LONG, spec="unigram"),
    ]
    for n_seeds in (2, 3, 5):
        settings += [
            Setting(name=f"{n_seeds} seeds, one of {layout.lengths[0]:,}", source=plain, layout=layout, n_seeds=n_seeds)
            for layout in (_ONE_SHORT, _ONE_LONG)
        ]
    return settings


def level_settings() -> list[Setting]:
    """Where pairs of equal models are tried; the sources are symmetric under the exchange of two symbols."""
    plain, sticky = plain_source(symmetric=True), sticky_source()
    return [
        Setting(name="one document of 2,000 tokens", source=plain, layout=_ONE_SHORT),
        Setting(name="one document of 20,000 tokens", source=plain, layout=_ONE_LONG),
        Setting(name="300 documents of 20 to 60 tokens", source=plain, layout=_HUNDREDS),
        Setting(name="2,500 documents of 4 to 12 tokens, joined", source=plain, layout=_THOUSANDS),
        Setting(name="sticky, one of 2,000", source=sticky, layout=_ONE_SHORT, spec="unigram"),
        Setting(name="sticky, one of 20,000", source=sticky, layout=_ONE_LONG, spec="unigram"),
    ]


# --- what a figure's sums and sizes are, by name: fields of the blocks, and the truth


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A ratio of sums over blocks (of nats, which only scales it) and its expectation."""

    name: str
    sums: tuple[str, ...]
    sizes: str
    truth: Callable[[Expected], float]


MEASURES = (
    Measure(
        name="perplexity", sums=("block_nats",), sizes="block_tokens", truth=lambda expected: expected.nats_per_token
    ),
    Measure(
        name="without OOV",
        sums=("block_known_nats",),
        sizes="block_known_tokens",
        truth=lambda expected: expected.nats_per_known_token,
    ),
    Measure(
        name="bits/char",
        sums=("block_nats", "block_spelling_nats"),
        sizes="block_chars",
        truth=lambda expected: expected.bits_per_char * math.log(2),
    ),
    Measure(
        name="bits/byte",
        sums=("block_nats", "block_spelling_nats"),
        sizes="block_bytes",
        truth=lambda expected: expected.bits_per_byte * math.log(2),
    ),
)


def sums_SxB(blocks: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Floats:
    """The sums of each block under each seed."""
    return np.array([np.sum([one[name] for name in names], axis=0) for one in blocks], np.float64)


# --- the three simulations


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """In how many corpora the interval of each measure held the truth.

    `width`: of the interval of nats per token, on average, as a share of them.  `seed_share`: how much of the variance
    of a corpus's nats per token is that between seeds.
    """

    setting: Setting
    n_corpora: int
    n_covered: Mapping[str, int]
    width: float
    seed_share: float


def coverage(
    setting: Setting, n_corpora: int, seed: int, interval_of: IntervalOf = ratio_interval, population: int = POPULATION
) -> Coverage:
    """Draw so many corpora, and look whether the truth lies in the interval of each measure.

    With one seed the truth is that of the model at hand, with several the mean over all models of the population.
    """
    rng = np.random.default_rng([seed, 0])
    models = population_of(setting, population, rng)
    n_covered = dict.fromkeys((measure.name for measure in measured_in(setting)), 0)
    widths, misses = [], []
    for documents in setting.layout.draw(setting.source, n_corpora, rng):
        chosen = chosen_from(models, setting.n_seeds, rng)
        blocks = [one.blocks(documents) for one in chosen]
        for measure in measured_in(setting):
            sums, sizes_B = sums_SxB(blocks, measure.sums), np.array(blocks[0][measure.sizes], np.float64)
            interval = interval_of(sums, sizes_B)
            truth = mean_truth(measure, chosen if setting.n_seeds == 1 else models)
            if interval is not None:
                n_covered[measure.name] += interval.low <= truth <= interval.high
                if measure is MEASURES[0]:
                    widths.append((interval.high - interval.low) / truth)
                    misses.append(float(sums.mean(axis=0).sum() / sizes_B.sum()) - truth)
    of_seeds = np.var([MEASURES[0].truth(one.expected) for one in models]) / setting.n_seeds
    return Coverage(
        setting=setting,
        n_corpora=n_corpora,
        n_covered=n_covered,
        width=float(np.mean(widths)),
        seed_share=float(of_seeds / np.mean(np.square(misses))) if setting.n_seeds > 1 else 0.0,
    )


def measured_in(setting: Setting) -> tuple[Measure, ...]:
    """The measures that differ: where no token is unknown, only bytes are another divisor than tokens."""
    return MEASURES if setting.unknown else (MEASURES[0], MEASURES[-1])


def population_of(setting: Setting, size: int, rng: np.random.Generator) -> list[Trained]:
    """Models of one recipe, each trained on a sample of its own."""
    return [
        trained(setting.spec, setting.source, setting.layout, setting.n_train, rng, unknown=setting.unknown)
        for _ in range(size)
    ]


def chosen_from(models: Sequence[Trained], n: int, rng: np.random.Generator) -> list[Trained]:
    """Some of the models, none twice."""
    return [models[i] for i in rng.choice(len(models), size=n, replace=False).tolist()]


def mean_truth(measure: Measure, models: Sequence[Trained]) -> float:
    return math.fsum(measure.truth(one.expected) for one in models) / len(models)


@dataclass(frozen=True, kw_only=True)
class Level:
    """How often models that are equal by construction were called different."""

    setting: Setting
    kind: str
    n_corpora: int
    n_called: int


def mirror_level(setting: Setting, n_corpora: int, seed: int, test_of: TestOf = paired_test) -> Level:
    """A model against its mirror image, which scores a text as the model scores the text's mirror image."""
    rng = np.random.default_rng([seed, 1])
    models = population_of(setting, POPULATION, rng)
    n_called = 0
    for documents in setting.layout.draw(setting.source, n_corpora, rng):
        (model,) = chosen_from(models, 1, rng)
        test = mirror_test(model, documents, setting.source, test_of)
        n_called += test.verdict(test.p) != "~"
    return Level(setting=setting, kind="a model and its mirror image", n_corpora=n_corpora, n_called=n_called)


def mirror_test(model: Trained, documents: Sequence[Ids], source: MarkovSource, test_of: TestOf) -> PairTest:
    """The paired test of a model and its mirror image on one text."""
    own = model.blocks(documents)
    mirrored = model.blocks([source.exchanged(ids_L) for ids_L in documents])
    nats = [sums_SxB([blocks], ("block_nats",)) for blocks in (own, mirrored)]
    return test_of(nats[0], nats[1], np.array(own["block_tokens"], np.float64))


def longer_tokens_level(setting: Setting, n_corpora: int, seed: int, share: ShareOut = shared_out) -> Level:
    """The same, the mirror image's nats being those of tokens of one to eight symbols, on pieces of one document."""
    rng = np.random.default_rng([seed, 5])
    models = population_of(setting, POPULATION, rng)
    n_called = 0
    for documents in setting.layout.draw(setting.source, n_corpora, rng):
        (model,) = chosen_from(models, 1, rng)
        split, mirrored_N = model.scored([setting.source.exchanged(ids_L) for ids_L in documents])
        starts_T = np.concatenate(([0], np.cumsum(rng.integers(1, _LONGEST_TOKEN + 1, size=split.n_tokens))))
        starts_T = starts_T[starts_T < split.n_tokens]
        bounds_P1 = piece_bounds(split)
        assert bounds_P1 is not None, "a document that is cut in pieces"
        places_T1 = np.append(starts_T, split.n_tokens).astype(np.float64)
        mirrored_P = share(np.add.reduceat(mirrored_N, starts_T), places_T1, bounds_P1)
        own = sums_SxB([model.blocks(documents)], ("text_nats",))
        test = paired_test(own, mirrored_P[None], np.diff(bounds_P1).astype(np.float64))
        n_called += test.verdict(test.p) != "~"
    return Level(setting=setting, kind="the same, one in longer tokens", n_corpora=n_corpora, n_called=n_called)


def family_level(setting: Setting, n_corpora: int, seed: int) -> Level:
    """Ten models and their mirror images on one text, corrected together: any one called different counts."""
    rng = np.random.default_rng([seed, 2])
    models = population_of(setting, POPULATION, rng)
    n_called = 0
    for documents in setting.layout.draw(setting.source, n_corpora, rng):
        tests = [
            mirror_test(model, documents, setting.source, paired_test) for model in chosen_from(models, FAMILY, rng)
        ]
        corrected = holm([test.p for test in tests])
        n_called += any(test.verdict(p) != "~" for test, p in zip(tests, corrected, strict=True))
    return Level(setting=setting, kind=f"any of {FAMILY} such pairs (Holm)", n_corpora=n_corpora, n_called=n_called)


def seeds_level(setting: Setting, n_seeds: int, n_corpora: int, seed: int) -> Level:
    """One recipe under some seeds against the same recipe under others."""
    rng = np.random.default_rng([seed, 3])
    models = population_of(setting, POPULATION, rng)
    n_called = 0
    for documents in setting.layout.draw(setting.source, n_corpora, rng):
        blocks = [one.blocks(documents) for one in chosen_from(models, 2 * n_seeds, rng)]
        a, b = (sums_SxB(part, ("block_nats",)) for part in (blocks[:n_seeds], blocks[n_seeds:]))
        test = paired_test(a, b, np.array(blocks[0]["block_tokens"], np.float64))
        n_called += test.verdict(test.p) != "~"
    kind = f"one recipe, {n_seeds} seeds against {n_seeds} others"
    return Level(setting=setting, kind=kind, n_corpora=n_corpora, n_called=n_called)


@dataclass(frozen=True, kw_only=True)
class Power:
    """How often a difference that is there was found, and how often its opposite."""

    setting: Setting
    n_train_b: int
    diff_nats: float
    n_corpora: int
    n_found: int
    n_wrong: int
    n_apart: int


def power(setting: Setting, n_train_b: int, n_corpora: int, seed: int) -> Power:
    """A model against one trained on more text; `n_apart`: how often their separate intervals do not meet."""
    rng = np.random.default_rng([seed, 4])
    size = (setting.source, setting.layout)
    a, b = (trained(setting.spec, *size, n_train, rng) for n_train in (setting.n_train, n_train_b))
    diff_nats = a.expected.nats_per_token - b.expected.nats_per_token
    better: Verdict = "b" if diff_nats > 0 else "a"
    verdicts, n_apart = list[Verdict](), 0
    for documents in setting.layout.draw(setting.source, n_corpora, rng):
        blocks = [one.blocks(documents) for one in (a, b)]
        nats = [sums_SxB([one], ("block_nats",)) for one in blocks]
        tokens_B = np.array(blocks[0]["block_tokens"], np.float64)
        test = paired_test(nats[0], nats[1], tokens_B)
        verdicts.append(test.verdict(test.p))
        first, second = (ratio_interval(one, tokens_B) for one in nats)
        n_apart += first is not None and second is not None and (first.low > second.high or second.low > first.high)
    return Power(
        setting=setting,
        n_train_b=n_train_b,
        diff_nats=abs(diff_nats),
        n_corpora=n_corpora,
        n_found=verdicts.count(better),
        n_wrong=len(verdicts) - verdicts.count(better) - verdicts.count("~"),
        n_apart=n_apart,
    )
