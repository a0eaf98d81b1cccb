"""The answer first: a few sentences in plain words, made from the data of one group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bench.report import wording
from bench.report.excess import nearest_sentence
from bench.report.reading import NOT_RUN
from bench.report.rows import Pair, Row, ranked
from bench.report.tables import targets_of
from bench.stats import over_seeds

# with fewer the spread between seeds is a guess
ENOUGH_SEEDS = 5
# more names than this are counted instead of listed
_MAX_NAMES = 8


def label_of(row: Row, rows: Sequence[Row]) -> str:
    """A row's name among others: its device is named where there are several, an asterisk marks adaptive models."""
    several = len({other.device for other in rows}) > 1
    return f"{row.model}{'*' if row.is_adaptive else ''}{f' on {row.device}' if several else ''}"


def answer(rows: Sequence[Row], pairs: Sequence[Pair], given: Sequence[float]) -> list[str]:
    """Which model wins, whether that is more than noise, and what the best neural model passed and when."""
    order = ranked(rows)
    if not order:
        return ["No model finished with a perplexity."]
    sentences = [_winner(order, pairs), *_winner_without_oov(order)]
    sentences += nearest_sentence(order, _name(order[0], order))
    neural = [row for row in order if row.family == "neural" and row.is_trained]
    counting = [row for row in order if row.family == "counting"]
    if order[0].family == "neural" and counting:
        sentences.append(_against_counting(order[0], counting[0], order, pairs))
    if neural:
        sentences.append(_passing(neural[0], order, rows, given))
    if len(neural) > 1:
        sentences += _about_seeds(max(len(row.trials) for row in neural))
    unfinished = [row for row in rows if row.reason and NOT_RUN in row.reason]
    if unfinished:
        sentences.append(f"The run ended before {_names(unfinished, rows)} had a record; go on with --resume.")
    failed = [row for row in rows if row.status not in ("ok", "refused") and row not in unfinished]
    if failed:
        sentences.append(f"{_names(failed, rows)} did not finish well; the reasons are below.")
    return sentences


def _about_seeds(n_seeds: int) -> list[str]:
    if n_seeds == 1:
        return ["Each neural model ran with one seed: another may change their order (see --seeds 5)."]
    if n_seeds < ENOUGH_SEEDS:
        return [
            f"With {n_seeds} seeds their spread is hardly known: intervals are wide, and differences of neural models "
            f"are seldom found (see --seeds {ENOUGH_SEEDS})."
        ]
    return []


def verdicts_of(row: Row, pairs: Sequence[Pair]) -> dict[tuple[str, str], str]:
    """How `row` fares against each other row it was tested against: `better`, `worse` or `~`, by (model, device)."""
    found = {}
    for pair in pairs:
        if row is pair.a or row is pair.b:
            other, won = (pair.b, "a") if row is pair.a else (pair.a, "b")
            verdict = "~" if pair.verdict == "~" else "better" if pair.verdict == won else "worse"
            found[other.model, other.device] = verdict
    return found


def times_to_targets(rows: Sequence[Row], given: Sequence[float]) -> Mapping[tuple[str, str, str], tuple[float, float]]:
    """(after, by) in training seconds over the seeds, for each (model, device, target name); misses are infinite."""
    brackets: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for row, _seed, name, _level, crossing in targets_of(rows, given):
        after_s = crossing.after_s if crossing.reached else math.inf
        brackets.setdefault((row.model, row.device, name), []).append((after_s, crossing.by_s))
    return {
        key: (over_seeds([after for after, _ in found]), over_seeds([by for _, by in found]))
        for key, found in brackets.items()
    }


def _winner(order: Sequence[Row], pairs: Sequence[Pair]) -> str:
    best, others = order[0], order[1:]
    value, interval = best.test_perplexity, best.interval
    range_text = f" (95 % interval {wording.interval(interval.low, interval.high)})" if interval else ""
    text = f"{_name(best, order)} has the lowest test perplexity, {wording.perplexity(value)}{range_text}"
    if not others:
        return f"{text}; no other model was ranked."
    verdicts = verdicts_of(best, pairs)
    ties = [row for row in others if verdicts.get((row.model, row.device)) == "~"]
    untested = [row for row in others if (row.model, row.device) not in verdicts]
    if not ties and not untested:
        return f"{text}, significantly lower than every other model's."
    parts = [f"not significantly different from that of {_names(ties, order)}"] if ties else []
    parts += [f"not tested against that of {_names(untested, order)}"] if untested else []
    rest = ", but significantly lower than all others'" if len(ties) + len(untested) < len(others) else ""
    return f"{text}, {', '.join(parts)}{rest}."


def _winner_without_oov(order: Sequence[Row]) -> list[str]:
    """That another model has the lowest perplexity once unknown tokens are left out, where that is so."""
    figures = [(value, row) for row in order if (value := row.test_perplexity_no_oov) is not None]
    if not figures:
        return []
    value, best = min(figures, key=lambda figure: figure[0])
    if best is order[0] or not any(m.test.n_oov for m in best.measured):
        return []
    return [
        f"Without out-of-vocabulary tokens the lowest is that of {_name(best, order)}, {wording.perplexity(value)}."
    ]


def _against_counting(best: Row, counting: Row, order: Sequence[Row], pairs: Sequence[Pair]) -> str:
    """Whether the winner, a neural model, is more than noise away from the best counting model."""
    name = f"the best counting model, {_name(counting, order)} ({wording.perplexity(counting.test_perplexity)})"
    verdict = verdicts_of(best, pairs).get((counting.model, counting.device))
    if verdict is None:
        return f"It could not be tested against {name}."
    return f"It is {'' if verdict == 'better' else 'not '}significantly better than {name}."


def _passing(best: Row, order: Sequence[Row], rows: Sequence[Row], given: Sequence[float]) -> str:
    """What the best neural model passed, easiest target first."""
    times = times_to_targets(rows, given)
    levels = {name: level for row, _, name, level, _ in targets_of(rows, given) if row is best}
    names = sorted(levels, key=lambda name: (-levels[name], name))
    passed = [(name, times[best.model, best.device, name]) for name in names]
    text = [f"{_target(name)} after {wording.seconds(by_s)}" for name, (_, by_s) in passed if math.isfinite(by_s)]
    never = [_target(name) for name, (_, by_s) in passed if not math.isfinite(by_s)]
    start = f"The best neural model, {_name(best, order)} ({wording.perplexity(best.test_perplexity)}),"
    if not names:
        return f"{start} had no counting model to pass."
    parts = [f"passed {wording.listed(text)} of training"] if text else []
    parts += [f"never passed {wording.listed(never)}"] if never else []
    return f"{start} {' and '.join(parts)} (on validation text)."


def _target(name: str) -> str:
    return f"perplexity {name.removeprefix('ppl=')}" if name.startswith("ppl=") else wording.isolated(name)


def _name(row: Row, among: Sequence[Row]) -> str:
    """A row's name inside a sentence."""
    return wording.isolated(label_of(row, among))


def _names(rows: Sequence[Row], among: Sequence[Row]) -> str:
    names = [_name(row, among) for row in rows]
    if len(names) > _MAX_NAMES:
        names = [*names[: _MAX_NAMES - 1], f"{len(names) - _MAX_NAMES + 1} more"]
    return wording.listed(names)
