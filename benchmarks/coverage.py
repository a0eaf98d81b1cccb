"""Do the intervals cover, and the tests hold their level?  python -m benchmarks.coverage

Texts are drawn from sources of which everything is known (see `simulated.py`), scored by models trained on small
samples, and put through the statistics of the report (see `known_truth.py`).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.stats import Floats, Interval
from bench.student import student_t_quantile
from benchmarks.known_truth import (
    MEASURES,
    Coverage,
    coverage,
    coverage_settings,
    family_level,
    level_settings,
    longer_tokens_level,
    mirror_level,
    power,
    seeds_level,
)


def page(n_corpora: int, seed: int) -> Iterator[str]:
    """The simulations as Markdown, line by line as they are done."""
    options = f"--corpora {n_corpora} --seed {seed} --page docs/simulations.md"
    yield "# Simulations of the statistics"
    yield ""
    yield f"Made by `python -m benchmarks.coverage {options}`."
    yield "Texts come from Markov chains over ten symbols, whose every expectation is known; models are trained on"
    yield "1,500 symbols. What a model is expected to cost is exact: all contexts are gone through. Each line has"
    yield f"{n_corpora:,} corpora of its own; by chance alone a share of 95 % is off by up to"
    yield f"{200 * math.sqrt(0.95 * 0.05 / n_corpora):.1f} points (two standard deviations). Where no token is unknown,"
    yield "perplexity without OOV and bits per character say the same."
    yield ""
    yield from coverage_lines(n_corpora, seed)
    yield ""
    yield from level_lines(n_corpora, seed)
    yield ""
    yield from power_lines(n_corpora, seed)


def coverage_lines(n_corpora: int, seed: int) -> Iterator[str]:
    """How often 95 % intervals hold the truth."""
    yield "## Intervals: how often they hold the truth"
    yield ""
    yield "To be within 93 and 97 %. With several seeds the truth is the mean over all models that the recipe gives;"
    yield "a seed is a counting model trained on a sample of its own, as no network's expectation is known exactly."
    yield "Sticky: each symbol stays with a chance of 0.9, so that neighbouring blocks are alike; the model is a"
    yield "unigram, which feels it most. The last line is the rejected method, single blocks instead of runs, and out"
    yield "of the band: that is why runs are taken."
    yield ""
    yield f"| test text | {' | '.join(measure.name for measure in MEASURES)} | mean width | variance due to seeds |"
    yield f"|---|{'---:|' * (len(MEASURES) + 2)}"
    settings = coverage_settings()
    for setting in settings:
        yield _coverage_line(coverage(setting, n_corpora, seed))
    sticky = next(setting for setting in settings if setting.spec == "unigram")
    single = replace(sticky, name=f"{sticky.name}, single blocks (rejected)")
    yield _coverage_line(coverage(single, n_corpora, seed, interval_of=single_blocks_interval))


def single_blocks_interval(values_SxB: Floats, sizes_B: Floats) -> Interval:
    """What was rejected: Student's interval as if each block were independent of its neighbours."""
    (values_B,), n_blocks, size = values_SxB, len(sizes_B), sizes_B.sum()
    ratio = float(values_B.sum() / size)
    variance = n_blocks / (n_blocks - 1) * float(np.square((values_B - ratio * sizes_B) / size).sum())
    margin = student_t_quantile(n_blocks - 1) * math.sqrt(variance)
    return Interval(ratio - margin, ratio + margin)


def _coverage_line(found: Coverage) -> str:
    covered = [found.n_covered.get(measure.name) for measure in MEASURES]
    shares = ["the same" if n is None else f"{n / found.n_corpora:.1%}" for n in covered]
    return _line(found.setting.name, *shares, f"{found.width:.1%}", f"{found.seed_share:.0%}")


def level_lines(n_corpora: int, seed: int) -> Iterator[str]:
    """How often equal models are called different."""
    yield "## Tests: how often equal models are called different"
    yield ""
    yield "To be at most 5 %. The source is the same when two of its symbols are exchanged; a model trained on a small"
    yield "sample and its mirror image, in which the two symbols are exchanged, give each token other probabilities and"
    yield "have the same expected nats. In longer tokens: the mirror image's nats are those of tokens of one to eight"
    yield "symbols, and both are tested on pieces of text, as tokenizers are. Two sets of seeds of one recipe are equal"
    yield "too."
    yield ""
    yield "| what is compared | test text | called different |"
    yield "|---|---|---:|"
    settings = level_settings()
    found = [mirror_level(setting, n_corpora, seed) for setting in settings]
    found += [longer_tokens_level(setting, n_corpora, seed) for setting in settings if setting.layout.n_documents == 1]
    found.append(family_level(settings[0], n_corpora, seed))
    found += [seeds_level(settings[0], n_seeds, n_corpora, seed) for n_seeds in (2, 3, 5)]
    yield from (_line(one.kind, one.setting.name, f"{one.n_called / one.n_corpora:.1%}") for one in found)


def power_lines(n_corpora: int, seed: int) -> Iterator[str]:
    """How large a difference is found how often."""
    yield "## Tests: how often a difference is found"
    yield ""
    yield "A model trained on 1,500 symbols against one trained on more. Found: the better one is called so. Apart:"
    yield "the two models' own intervals do not meet, which is what one would have without a paired test."
    yield ""
    yield "| test text | trained on | difference, nats/token | of perplexity | found | the wrong one | apart |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for setting in level_settings()[:2]:
        for n_train_b in (1_600, 1_800, 2_400):
            found = power(setting, n_train_b, n_corpora, seed)
            shares = [f"{n / n_corpora:.1%}" for n in (found.n_found, found.n_wrong, found.n_apart)]
            of_perplexity = f"{math.expm1(found.diff_nats):.2%}"
            yield _line(setting.name, f"{n_train_b:,}", f"{found.diff_nats:.4f}", of_perplexity, *shares)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |".replace("%", " %")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__.split("\n")[0])
    parser.add_argument("--corpora", type=int, default=1000, help="so many for each line (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of everything that is drawn (default: %(default)s)")
    parser.add_argument("--page", type=Path, help="a file for the page, besides standard output")
    options = parser.parse_args()
    if options.corpora < 1:
        parser.error(f"--corpora must be at least 1, got {options.corpora}")
    lines = []
    for line in page(options.corpora, options.seed):
        print(line, flush=True)
        lines.append(line)
    if options.page is not None:
        options.page.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
