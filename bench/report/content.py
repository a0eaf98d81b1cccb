"""What the report says, before it is Markdown or HTML: sections of sentences, tables and figures, all plain text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.environment import file_name
from bench.plan import QUICK_BUDGET_S
from bench.report import notices, wording
from bench.report.across import Across, largest_fraction
from bench.report.across_sheet import across_sentence, across_sheet
from bench.report.answer import answer, caveats, label_of
from bench.report.differences import profile_parts
from bench.report.distance import distance_sheets
from bench.report.passages import most_shown
from bench.report.provenance import corpora_of, provenance_sheets
from bench.report.reading import Run
from bench.report.rows import Group, Pair, Row
from bench.report.scaling import Series, scaling_sheets
from bench.report.sheets import MATRIX, Part, Sheet, sheets_of


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A plot: the stem of its files under `plots/`, what it shows, and the same in words (alt)."""

    stem: str
    title: str
    alt: str
    group: Group


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading with what stands under it, in this order.  `level` is 2 or 3.

    `html` names a template beside the page's, which the page includes at the end of the section with `data`; Markdown
    does without.
    """

    title: str
    level: int = 2
    paragraphs: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    sheets: Sequence[Sheet] = ()
    bullets: Sequence[str] = ()
    html: str = ""
    data: object = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """`command` made the run, if one did, and stands right under the title.

    `kinds` has words by which a page's reader may ask for a model's rows: its family, and whether it is adaptive.
    """

    title: str
    sections: Sequence[Section]
    command: str = ""
    kinds: Mapping[str, str] = field(default_factory=dict)


def report_of(
    run: Run,
    several: Sequence[Series],
    pairs: Mapping[Group, Sequence[Pair]],
    figures: Sequence[Figure],
    across: Sequence[Across] = (),
    tables: Sequence[str] = (),
) -> Report:
    """The report of a run: what all tokens of a text share, a part per text and vocabulary, then what holds for all.

    Where models learned from several fractions of a text, its parts are about the largest.  `tables`: the names of the
    files that hold the same figures.
    """
    largest = largest_fraction(across)
    sections = [_across_section(one, figures) for one in across if one.group.train_fraction == largest]
    for series in several:
        own = [figure for figure in figures if figure.group == series.whole]
        sections += _text_sections(series, pairs[series.whole], run, own, alone=len(several) == 1)
        sections += _closer_sections(series, own, n_texts=len(several))
    told = (_unavailable(run), Section(title="Warnings", bullets=warnings_of(run)))
    sections += [section for section in told if section.bullets]
    sections += [_reading(tables), Section(title="Provenance", sheets=provenance_sheets(run))]
    quick = f" (quick: networks trained for {QUICK_BUDGET_S:g} s only)" if notices.is_quick(run.info.plan) else ""
    title = f"Language models compared: {run.info.run_id}{quick}"
    groups = [rows for series in several for rows in series.groups.values()]
    kinds = _kinds([*groups, *[one.rows for one in across]])
    return Report(title=title, command=run.info.command, sections=sections, kinds=kinds)


def _kinds(groups: Iterable[Sequence[Row]]) -> dict[str, str]:
    """By the name that a row has among others of a table, and that it has where all are of its device."""
    found: dict[str, str] = {}
    for rows in groups:
        for row in rows:
            found |= {label_of(row, among): row.kinds for among in (rows, [row])}
    return found


# what there is to know of what stands in a table
_ABOUT_PROFILES: Mapping[str, str] = {
    "surprisal.csv": "Longest match: how many tokens, up to this one, stand together somewhere in the training text. "
    "Places in a document with few tokens are joined; surprisal.csv has them apart.",
    "passage.csv": "The passage is the start of the test text's first document or, where that is long, what comes "
    "after its first 1,000 tokens: one rule for every text, so that nobody chooses it.",
}


def _across_section(across: Across, figures: Sequence[Figure]) -> Section:
    """The one table in which tokenizers and vocabularies compare."""
    where = f"On {across.group.title}, by what is the same for all tokens, the text itself:"
    return Section(
        title=f"Across tokenizers and vocabularies: {across.group.title}",
        paragraphs=(where, across_sentence(across)),
        figures=[figure for figure in figures if figure.group == across.group and figure.stem.startswith("across")],
        sheets=[across_sheet(across)],
    )


def _text_sections(
    series: Series, pairs: Sequence[Pair], run: Run, figures: Sequence[Figure], *, alone: bool
) -> list[Section]:
    """With several texts, each has a heading of its own and its parts stand one level lower."""
    group = series.whole
    rows = series.groups[group]
    given = run.info.target_perplexities
    where = f"On {group.title}{_tested_on(rows)}:"
    first, *others = answer(rows, pairs, given)
    head = Section(
        title="The answer" if alone else group.title,
        paragraphs=(where, first, *([" ".join(others)] if others else [])),
        bullets=caveats(rows, pairs),
    )
    level = 2 if alone else 3
    by_part = {figure.stem.split("-")[0]: figure for figure in figures}
    parts = []
    for title, stems, sheets in [*_scaling(series), *_with_distances(sheets_of(rows, pairs, given), rows)]:
        drawn = tuple(by_part[stem] for stem in stems if stem in by_part)
        # the picture of all pairs has all that the list of ties in its place tells
        shown = [] if stems == (MATRIX,) and drawn else sheets
        if shown or drawn:
            parts.append(Section(title=title, level=level, figures=drawn, sheets=shown))
    return [head, *parts]


def _closer_sections(series: Series, figures: Sequence[Figure], *, n_texts: int) -> list[Section]:
    """Where the models of a text differ, token by token, as far as their records tell."""
    return [
        Section(
            title=part.title,
            level=2 if n_texts == 1 else 3,
            figures=[figure for figure in figures if figure.stem.split("-")[0] in part.stems],
            sheets=part.sheets,
            html=part.html,
            data=part.data,
        )
        for part in profile_parts(series.groups[series.whole], most_shown(n_texts))
    ]


def _scaling(series: Series) -> list[Part]:
    """What more text is worth comes first, where several fractions were learned from."""
    return [("More training text", ("scaling",), scaling_sheets(series))] if series.is_several else []


def _with_distances(parts: Sequence[Part], rows: Sequence[Row]) -> list[Part]:
    """The parts, distances to a known source under the ranking, which comes first."""
    (title, stems, sheets), *others = parts
    return [(title, stems, [*sheets, *distance_sheets(rows)]), *others]


def _tested_on(rows: Sequence[Row]) -> str:
    """The test file, where it was given by itself: the group has the name of the training text."""
    files = {file_name(trial.corpus.test) for row in rows for trial in row.trials if trial.corpus.test}
    return f", tested on {wording.named(sorted(files))}" if files else ""


def _unavailable(run: Run) -> Section:
    reasons = [f"{wording.isolated(model)}: {reason}" for model, reason in sorted(run.info.unavailable.items())]
    return Section(title="Could not run here", bullets=reasons)


def warnings_of(run: Run) -> list[str]:
    """What the terminal said too, and what only the reading of the records can tell."""
    own = notices.of_run(run.info.plan, corpora_of(run), run.records)
    return list(dict.fromkeys([*own, *run.info.warnings, *run.warnings]))


def _reading(tables: Sequence[str]) -> Section:
    return Section(
        title="How to read this",
        bullets=(
            "Perplexity is exp(nats per token): the number of equally likely choices that would be as hard; lower is "
            "better. With several seeds it is exp of the mean nats per token.",
            "Intervals (in brackets) are 95 % block-bootstrap intervals over runs of neighbouring blocks of the test "
            "text, and over seeds where there are several. ~ means that a paired test over the same blocks "
            "(Holm-corrected) finds no difference, or one below 1e-6 nats per token, which counts as none.",
            "With one seed, intervals and tests tell how much depends on the choice of the test text; chance in "
            "training (first weights, order of batches) is not in them. --seeds 5 brings it in.",
            "Training seconds stand still during validation. A target was passed between two validations: the later "
            "one is the headline, the earlier one stands in brackets. A miss is printed as 'not reached'.",
            "Scoring tokens/s: a whole text is scored, as in the evaluation. Next token: the time from a state to the "
            "probabilities of all next tokens and the next state, one call at a time: the median of the calls, and the "
            "99th percentile (p99), which one in a hundred exceeds. Speeds are the median of five repeats, unstable "
            "where the quartiles of these lie more than 10 % of it apart.",
            "Top-1: how often the most probable token is the right one, over the first 10,000 test tokens.",
            "* marks adaptive models, which learn from the text that they score. n/a: no such value; "
            "where it is a quality, the reason stands under the ranking. OOV: test tokens that are out of vocabulary, "
            "scored as <unk>. Without OOV: perplexity over the other tokens; the two may rank models differently, as "
            "what <unk> is given is a matter of a model's smoothing. Intervals and tests are over all tokens.",
            "Curves: the line is the median of a network's seeds, the band around it reaches from the lowest to the "
            "highest. Dashed levels are counting models; a bracket on one spans the two validations between which a "
            "network came to it. Pareto front: the models that no other beats in both perplexity and the cost in "
            "question.",
            *[told for table, told in _ABOUT_PROFILES.items() if table in tables],
            f"The same figures in full: report.json{', and in tables/: ' * bool(tables)}{', '.join(tables)}.",
        ),
    )
