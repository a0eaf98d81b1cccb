"""The answer first: a few sentences in plain words, made from the data of one group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bench.records import FINE
from bench.report import wording
from bench.report.excess import nearest_sentence
from bench.report.limits import length_of
from bench.report.reading import NOT_RUN
from bench.report.rows import Pair, Row, ranked
from bench.report.tables import targets_of
from bench.stats import over_seeds

# with fewer the spread between seeds is a guess
ENOUGH_SEEDS = 5
# more names than this are counted instead of listed, and of targets only so many of the hardest that were passed
_MAX_NAMES = 4
_MAX_PASSED = 3
# beyond it, exp leaves the range of floats
_LARGEST_EXPONENT = 700.0


def label_of(row: Row, rows: Sequence[Row]) -> str:
    """A row's name among others: its device is named where there are several, an asterisk marks adaptive models."""
    several = len({other.device for other in rows}) > 1
    return f"{row.model}{'*' if row.is_adaptive else ''}{f' on {row.device}' if several else ''}"


def answer(rows: Sequence[Row], pairs: Sequence[Pair], given: Sequence[float]) -> list[str]:
    """Which model wins, whether that is more than noise, and what the best neural model passed and when.

    It is short, to be read in ten seconds: what else there is to know stands in `caveats`.
    """
    order = ranked(rows)
    if not order:
        return ["No model finished with a perplexity."]
    if order[0].test_perplexity == math.inf:
        return ["Every model held some test token impossible: all perplexities are infinite."]
    neural = [row for row in order if row.family == "neural" and row.is_trained]
    return [_winner(rows, pairs), *(_passing(neural[0], rows, given) if neural else [])]


def caveats(rows: Sequence[Row], pairs: Sequence[Pair]) -> list[str]:
    """What a reader of the answer has to know too: by how much, the text's source, few seeds, failures."""
    order = ranked(rows)
    sentences = []
    if order:
        sentences += _margin(rows, pairs)
        sentences += nearest_sentence(order, _name(order[0], rows))
        sentences += [*_about_adaptive(rows), *_winner_without_oov(rows)]
    neural = [row for row in order if row.family == "neural" and row.is_trained]
    if neural:
        sentences += _about_training(neural, rows)
    if len(neural) > 1:
        sentences += _about_seeds(max(len(row.trials) for row in neural))
    unfinished = [row for row in rows if row.reason and NOT_RUN in row.reason]
    if unfinished:
        sentences.append(f"The run ended before {_names(unfinished, rows)} had a record; go on with --resume.")
    failed = [row for row in rows if row.status not in FINE and row not in unfinished]
    if failed:
        sentences.append(f"{_names(failed, rows)} did not finish well; the reasons are below.")
    return sentences


def _margin(rows: Sequence[Row], pairs: Sequence[Pair]) -> list[str]:
    """How far the best model is below the best one of the other family, networks or counting."""
    order = ranked(rows)
    best = order[0]
    other = next((row for row in order if {row.family, best.family} == {"neural", "counting"}), None)
    test = None if other is None else test_of(best, other, pairs)
    if other is None or test is None or None in test:
        return []
    share, *ends = (share_below(nats) for nats in test if nats is not None)
    low, high = (wording.percent(end) for end in sorted(ends))
    return [
        f"{_name(best, rows)} is {wording.percent(share)} below {_name(other, rows)} (95 % interval {low} to {high})."
    ]


def share_below(nats: float) -> float:
    """By what share a perplexity is below another, given the difference of their nats per token."""
    return -math.expm1(nats) if nats < _LARGEST_EXPONENT else -math.inf


def test_of(row: Row, other: Row, pairs: Sequence[Pair]) -> tuple[float | None, float | None, float | None] | None:
    """Nats per token of a row less the other's, and the ends of the interval; None where the two were not tested."""
    pair = next((pair for pair in pairs if {id(pair.a), id(pair.b)} == {id(row), id(other)}), None)
    if pair is None:
        return None
    found = (pair.test.diff, pair.test.low, pair.test.high)
    if pair.a is row:
        return found
    diff, low, high = (None if nats is None else -nats for nats in found)
    return diff, high, low


def _about_adaptive(rows: Sequence[Row]) -> list[str]:
    """That the winner learns while it is tested, and the best of those that do not."""
    order = ranked(rows)
    if not order[0].is_adaptive:
        return []
    others = [row for row in order if not row.is_adaptive]
    told = [
        f"; the best that does not is {_name(row, rows)} ({wording.perplexity(row.test_perplexity)})"
        for row in others[:1]
    ]
    return [f"{_name(order[0], rows)} learns from the text that it scores{''.join(told)}."]


def _about_training(neural: Sequence[Row], rows: Sequence[Row]) -> list[str]:
    """How long networks were trained: with another budget they are other models."""
    lengths = list(dict.fromkeys(filter(None, (length_of(trial) for row in neural for trial in row.trials))))
    if not lengths:
        return []
    subject = "Each neural model was" if len(neural) > 1 else f"{_name(neural[0], rows)} was"
    return [f"{subject} trained for {wording.listed(_cut(lengths), 'or')}."]


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


def _winner(rows: Sequence[Row], pairs: Sequence[Pair]) -> str:
    """Who is first, and from whom the test text cannot tell it."""
    best, *others = ranked(rows)
    value, interval = best.test_perplexity, best.interval
    range_text = f" (95 % interval {wording.interval(interval.low, interval.high)})" if interval else ""
    text = f"{_name(best, rows)} has the lowest test perplexity, {wording.perplexity(value)}{range_text}"
    if not others:
        return f"{text}; no other model was ranked."
    verdicts = verdicts_of(best, pairs)
    ties = [row for row in others if verdicts.get((row.model, row.device)) == "~"]
    untested = [row for row in others if (row.model, row.device) not in verdicts]
    if not ties and not untested:
        return f"{text}; every other model is significantly worse."
    # the best counting model is named, however many are level
    ties.sort(key=lambda row: row is not _best_counting(rows))
    equal, close = ([row for row in ties if (row.test_perplexity == value) is same] for same in (True, False))
    parts = [f"{_names(equal, rows)} {'has' if len(equal) == 1 else 'have'} the same"] if equal else []
    parts += [f"{_names(close, rows)} {'is' if len(close) == 1 else 'are'} not significantly worse"] if close else []
    parts += [f"{_names(untested, rows)} could not be tested against it"] if untested else []
    if len(ties) + len(untested) < len(others):
        parts.append("all others are" if close and not untested else "all others are significantly worse")
    return f"{text}; {', '.join(parts)}."


def _best_counting(rows: Sequence[Row]) -> Row | None:
    return next((row for row in ranked(rows) if row.family == "counting"), None)


def _winner_without_oov(rows: Sequence[Row]) -> list[str]:
    """That another model has the lowest perplexity once unknown tokens are left out, where that is so."""
    order = ranked(rows)
    figures = [(value, row) for row in order if (value := row.test_perplexity_no_oov) is not None]
    if not figures:
        return []
    value, best = min(figures, key=lambda figure: figure[0])
    if best is order[0] or not any(m.test.n_oov for m in best.measured):
        return []
    return [f"Without out-of-vocabulary tokens the lowest is that of {_name(best, rows)}, {wording.perplexity(value)}."]


def _passing(best: Row, rows: Sequence[Row], given: Sequence[float]) -> list[str]:
    """What the best neural model passed, the hardest last, and what it never did; nothing where there was no target."""
    times = times_to_targets(rows, given)
    levels = {name: level for row, _, name, level, _ in targets_of(rows, given) if row is best}
    by_name = {name: times[best.model, best.device, name][1] for name in levels}
    names = sorted(levels, key=lambda name: (-levels[name], name))
    named = {name: _target(name, rows) for name in names}
    passed = [name for name in names if math.isfinite(by_name[name])]
    never = [named[name] for name in names if not math.isfinite(by_name[name])]
    subject = "It"
    if best is not ranked(rows)[0]:
        subject = f"The best neural model, {_name(best, rows)} ({wording.perplexity(best.test_perplexity)}),"
    shown = [f"{named[name]} after {wording.seconds(by_name[name])}" for name in passed[-_MAX_PASSED:]]
    parts = [f"passed {wording.listed(shown)} of training"] if shown else []
    parts += [f"never passed {wording.listed(_cut(never))}"] if never else []
    return [f"{subject} {' and '.join(parts)}."] if parts else []


def _target(name: str, rows: Sequence[Row]) -> str:
    """A target inside a sentence; the best counting model, where that is not the winner, with its test perplexity."""
    if name.startswith("ppl="):
        return f"perplexity {name.removeprefix('ppl=')}"
    counting = _best_counting(rows)
    if counting is None or counting is ranked(rows)[0] or counting.model != name:
        return wording.isolated(name)
    value = wording.perplexity(counting.test_perplexity)
    return f"{wording.isolated(name)} (the best counting model, test perplexity {value})"


def _name(row: Row, among: Sequence[Row]) -> str:
    """A row's name inside a sentence."""
    return wording.isolated(label_of(row, among))


def _names(rows: Sequence[Row], among: Sequence[Row]) -> str:
    return wording.listed(_cut([_name(row, among) for row in rows]))


def _cut(names: Sequence[str]) -> Sequence[str]:
    """The first few of very many, and how many there are besides."""
    return names if len(names) <= _MAX_NAMES else [*names[: _MAX_NAMES - 1], f"{len(names) - _MAX_NAMES + 1} more"]
