"""Where models differ, how well they know what they know, and what they write: the parts of a group's report.

Tables are for the best few models; `tables/` has all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.profiled import Passage, Sample, SortedBy
from bench.report import wording
from bench.report.answer import label_of
from bench.report.passages import (
    choices_in_words,
    in_its_place,
    percent,
    probability,
    readable,
    sharing,
    views_of,
)
from bench.report.profiles import (
    OOV,
    Bounds,
    Cost,
    calibration_error_of,
    chosen,
    costs_of,
    guesses_of,
    named,
    profiles_of,
    rare_share,
    sample_of,
    sums_to_one,
    with_profile,
)
from bench.report.rows import Row
from bench.report.sheets import Sheet

# columns of the tables by kind of token, and tokens where two models differ
_MOST_COLUMNS = 6
_MOST_TOKENS = 10
# what occurs less often in training is called rare
RARE = 10
_TITLES: Mapping[SortedBy, tuple[str, str]] = {
    "frequency": ("times in training", "bits per token by how often the token stands in the training text"),
    "position": ("place", "bits per token by its place in the document"),
    "order": ("longest match", "bits per token by the longest n-gram of the training text that ends in it, in tokens"),
}
_BADGES: Mapping[str, str] = {
    "passed": "yes",
    "failed": "NO",
    "expected": "no, as declared",
    "skipped": "not checked",
    "": wording.NOT_AVAILABLE,
}


@dataclass(frozen=True, kw_only=True)
class ProfilePart:
    """A part of the report: its title, the stems of its plots, its tables; a template of the page with its data."""

    title: str
    stems: Sequence[str] = ()
    sheets: Sequence[Sheet] = ()
    html: str = ""
    data: object = None


def profile_parts(rows: Sequence[Row], most_shown: int) -> list[ProfilePart]:
    """The parts of a group whose records have profiles; those without anything in them are left out."""
    views = views_of(rows, most_shown)
    parts = [
        ProfilePart(
            title="Where models differ",
            stems=("surprisal",),
            sheets=[*_apart(rows), *_by_kind(rows)],
            html="passages.html.jinja" if views else "",
            data=views,
        ),
        ProfilePart(title="Calibration", stems=("calibration",), sheets=_calibration(rows)),
        ProfilePart(title="Samples", sheets=_samples(rows)),
    ]
    return [part for part in parts if part.sheets or part.html]


def _apart(rows: Sequence[Row]) -> list[Sheet]:
    """The tokens of the passage that the best model and the best of another family disagree most about."""
    shared = sharing(rows)
    if len(shared) < 2:
        return []
    (a, of_a), *others = shared
    b, of_b = next(((row, passage) for row, passage in others if row.family != a.family), others[0])
    names = [label_of(row, rows) for row in (a, b)]
    differences = [_difference(x, y) for x, y in zip(of_a.nats, of_b.nats, strict=True)]
    order = sorted(range(len(differences)), key=lambda at: (-abs(differences[at]), at))[:_MOST_TOKENS]
    lines = [_token_line(of_a, of_b, at, differences[at]) for at in sorted(order) if differences[at]]
    headers = ("token", *names, "difference, bits", "longest match", *(f"likeliest for {name}" for name in names))
    caption = f"tokens of one passage where {wording.named(names)} differ most, in the order of the text"
    first, second = map(wording.isolated, names)
    notes = (
        f"difference: the bits of {first} less those of {second}; below 0 {first} found the token likelier",
        f"the passage: {_quoted(of_a)}",
    )
    return [Sheet(caption=caption, headers=headers, align="lrrrrll", rows=lines, notes=notes)] if lines else []


def _difference(a: float | None, b: float | None) -> float:
    """Bits of a less those of b; 0 where both are impossible."""
    if a is None or b is None:
        return 0.0 if a is b else math.inf if a is None else -math.inf
    return (a - b) / math.log(2)


def _token_line(a: Passage, b: Passage, at: int, difference: float) -> tuple[str, ...]:
    return (
        in_its_place(a, at),
        percent(probability(a.nats[at])),
        percent(probability(b.nats[at])),
        f"{'+' if difference > 0 else ''}{wording.rounded(difference, 2)}",
        str(a.orders[at]) if a.orders else wording.NOT_AVAILABLE,
        choices_in_words(a, at, 1),
        choices_in_words(b, at, 1),
    )


def _quoted(passage: Passage) -> str:
    text = passage.separator.join(passage.tokens)
    return wording.isolated(readable(" ".join(text.split())))


def _by_kind(rows: Sequence[Row]) -> list[Sheet]:
    """A table for each way to sort tokens: a line per bucket, a column per model."""
    known = with_profile(rows)
    shown = chosen(known, _MOST_COLUMNS)
    sheets = []
    for kind, (header, caption) in _TITLES.items():
        costs = [costs_of(row, kind) for row in shown]
        bounds = list(dict.fromkeys(bounds for some in costs for bounds in some))
        if bounds:
            lines = [_bucket_line(one, costs) for one in bounds]
            headers = (header, "tokens", "share", *(label_of(row, rows) for row in shown))
            notes = [*_about_rare(rows, known), *_left_out(known, shown)] if kind == "frequency" else []
            align = "l" + "r" * (len(headers) - 1)
            sheets.append(Sheet(caption=caption, headers=headers, align=align, rows=lines, notes=notes))
    return [*sheets, *_without(known)]


def _bucket_line(bounds: Bounds, costs: Sequence[Mapping[Bounds, Cost]]) -> tuple[str, ...]:
    found = [some.get(bounds) for some in costs]
    n_tokens = next(cost.n_tokens for cost in found if cost is not None)
    n_all = next(sum(cost.n_tokens for cost in some.values()) for some in costs if bounds in some)
    bits = [wording.NOT_AVAILABLE if cost is None else wording.rounded(cost.bits) for cost in found]
    return (named(bounds), f"{n_tokens:,}", wording.percent(n_tokens / n_all), *bits)


def _about_rare(rows: Sequence[Row], known: Sequence[Row]) -> list[str]:
    """How much of the best models' nats comes from rare tokens."""
    found = [(label_of(row, rows), rare_share(costs_of(row, "frequency"), RARE)) for row in known[:2]]
    told = [(name, *share) for name, share in found if share is not None]
    if not told:
        return []
    parts = [f"{wording.percent(nats)} of the bits of {wording.isolated(name)}" for name, _, nats in told]
    return [
        f"tokens that are out of vocabulary ({OOV}), or that the training text has fewer than {RARE} times, are "
        f"{wording.percent(told[0][1])} of all and take {wording.listed(parts)}"
    ]


def _left_out(known: Sequence[Row], shown: Sequence[Row]) -> list[str]:
    n_more = len(known) - len(shown)
    if not n_more:
        return []
    return [f"{n_more} more {'models are' if n_more > 1 else 'model is'} in tables/surprisal.csv, for every kind"]


def _without(known: Sequence[Row]) -> list[Sheet]:
    """Why there is no table of some kind, where the records say so."""
    reasons = {p.absent["by_order"] for row in known for p in profiles_of(row) if "by_order" in p.absent}
    return [
        Sheet(caption="by longest match: not told", headers=("reason",), align="l", rows=[(reason,)])
        for reason in sorted(reasons)
    ]


def _calibration(rows: Sequence[Row]) -> list[Sheet]:
    """How sure models are of their first choice and how often it is right; whether their probabilities sum to 1."""
    known = with_profile(rows)
    # that probabilities do not sum to 1 is told of rows that are not ranked too: it is why
    others = [row for row in rows if not any(row is one for one in known) and sums_to_one(row)]
    lines = [_calibration_line(row, rows) for row in (*known, *others)]
    if not lines:
        return []
    headers = ("model", "calibration error", "mean confidence", "right", "too sure by", "sums to 1")
    notes = (
        "confidence is the probability of the most probable token, right how often that token came; over the first "
        "10,000 test tokens. Calibration error: the mean distance of the two in 15 bins of confidence (expected "
        "calibration error, Guo et al. 2017); 0 is best",
        "sums to 1: whether the probabilities of all next tokens sum to 1 after every kind of context that is checked",
    )
    return [
        Sheet(
            caption="confidence against how often it is right",
            headers=headers,
            align="nrrrrl",
            rows=lines,
            notes=notes,
        )
    ]


def _calibration_line(row: Row, rows: Sequence[Row]) -> tuple[str, ...]:
    guesses = guesses_of(row)
    badge = _BADGES[sums_to_one(row)]
    if guesses is None:
        return (label_of(row, rows), *[wording.NOT_AVAILABLE] * 4, badge)
    sure, right = guesses.mean_confidence, guesses.accuracy
    by = f"{'+' if sure > right else ''}{wording.rounded(100 * (sure - right))} points"
    return (
        label_of(row, rows),
        wording.percent(calibration_error_of(row)),
        wording.percent(sure),
        wording.percent(right),
        by,
        badge,
    )


def _samples(rows: Sequence[Row]) -> list[Sheet]:
    """What each model writes after the same words, with the same seed."""
    found = [(row, sample) for row in with_profile(rows) if (sample := sample_of(row)) is not None]
    if not found:
        return []
    first = found[0][1]
    start = f"the words “{wording.isolated(readable(first.prompt))}”" if first.prompt else "nothing"
    lines = [(label_of(row, rows), _in_a_line(sample)) for row, sample in found]
    caption = f"what each model writes after {start}, drawn with seed {first.seed}"
    return [Sheet(caption=caption, headers=("model", "text"), align="nl", rows=lines)]


def _in_a_line(sample: Sample) -> str:
    if sample.text is None:
        return f"no text: {sample.reason}"
    return wording.isolated(readable(" ↵ ".join(sample.text.split("\n"))))
