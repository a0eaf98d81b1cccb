"""Rewrite the README's table of the reference run from the figures that the run stored.

    python docs/readme_table.py

The section between the two comment marks of README.md is replaced; nothing else is touched.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
START = "<!-- reference run: start -->"
END = "<!-- reference run: end -->"
PLOTS = {
    "plots/perplexity.png": "Test perplexity of each model",
    "plots/validation.png": "Validation perplexity of each network over its training seconds, beside counting models",
}

HEAD = """\
## What to expect

What the default command measured on {corpus}: {tokens} tokens, a document per {documents}; on {device},
threads: {threads}. Lower is better; brackets hold 95 % intervals. All tables, curves, plots and records are in
[{place}]({place}/report.md).

A `~` says that a paired test over the same pieces of text finds no difference from the best. It may stand below a
`worse`: the test sees a small difference sooner between two models that err at the same places. `-scratch` and `-cudnn`
are the same network, computed by other code: which of the two is first depends on how much it learnt in the seconds
given, so another machine may order them otherwise (`--max-steps` gives all the same steps, `--seeds` tells chance
apart). Memory is the peak of training and measuring, imports included.

| model | test perplexity | against the best | bits/char | training (s) | size (KiB) | next token (µs) | memory (MiB) |
|---|---|---|---|---|---|---|---|
"""


def section(run: Path, place: str) -> str:
    """The section for a run's folder; `place` is that folder as the README links to it."""
    with (run / "tables" / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = sorted(csv.DictReader(file), key=_rank)
    head = HEAD.format(
        place=place,
        corpus=_values(rows, "corpus"),
        tokens=_values(rows, "tokenizer"),
        documents=_values(rows, "documents"),
        device=_values(rows, "device"),
        threads=_values(rows, "threads"),
    )
    plots = "".join(f"\n![{title}]({place}/{plot})\n" for plot, title in PLOTS.items() if (run / plot).exists())
    verdicts = _against_best(run, rows[0]["model"])
    return head + "".join(_line(row, verdicts) + "\n" for row in rows) + plots


def replaced(text: str, section_text: str) -> str:
    """A README with what stands between its marks replaced."""
    before, start, rest = text.partition(START + "\n")
    _, end, after = rest.partition(END + "\n")
    if not start or not end:
        raise SystemExit(f"README.md has not both marks, {START} and {END}; put them back")
    return before + start + section_text + end + after


def main() -> None:
    run = ROOT / "results" / "reference"
    if not (run / "tables" / "summary.csv").exists():
        raise SystemExit("no results/reference yet; make it: python -m bench.run --models all --out results/reference")
    readme = ROOT / "README.md"
    readme.write_text(replaced(readme.read_text(encoding="utf-8"), section(run, "results/reference")), encoding="utf-8")
    sys.stdout.write("README.md: the table is that of results/reference\n")


def _rank(row: Mapping[str, str]) -> tuple[bool, float]:
    # the best first; a model without a figure stands at the end
    return row["status"] != "ok", float(row["test_perplexity"] or math.inf)


def _values(rows: list[dict[str, str]], column: str) -> str:
    return ", ".join(sorted({row[column] for row in rows if row.get(column)})) or "n/a"


def _against_best(run: Path, best: str) -> dict[str, str]:
    """How each model fares against the best one: `best`, `~` or `worse`."""
    verdicts = {best: "best"}
    with (run / "tables" / "significance.csv").open(encoding="utf-8", newline="") as file:
        for pair in csv.DictReader(file):
            if best in (pair["model_a"], pair["model_b"]):
                other = pair["model_b"] if pair["model_a"] == best else pair["model_a"]
                verdicts[other] = "~" if pair["verdict"] == "~" else "worse"
    return verdicts


def _line(row: Mapping[str, str], verdicts: Mapping[str, str]) -> str:
    cells = (
        # what learns from the text that it is scored on is starred
        f"`{row['model']}`" + ("*" if row["is_adaptive"] == "true" else ""),
        _perplexity(row),
        verdicts.get(row["model"], "n/a"),
        _number(row["bits_per_char"], ".3f"),
        _number(row["train_s"], ".3g"),
        _number(row["model_bytes"], ",.0f", unit=1024),
        _number(row["next_token_us"], ".0f"),
        _number(row["peak_rss_bytes"], ".0f", unit=1024 * 1024),
    )
    return "| " + " | ".join(cells) + " |"


def _perplexity(row: Mapping[str, str]) -> str:
    if row["status"] != "ok":
        return f"{row['status']}: {row['reason']}"
    low, high = row["test_perplexity_low"], row["test_perplexity_high"]
    interval = f" [{float(low):.3f}, {float(high):.3f}]" if low and high and math.isfinite(float(high)) else ""
    return _number(row["test_perplexity"], ".3f") + interval


def _number(text: str, shape: str, *, unit: float = 1.0, digits: int | None = None) -> str:
    """A CSV cell as the table shows it: in its unit, cut to so many significant digits where there are more."""
    if not text:
        return "n/a"
    value = float(text) / unit
    if digits is not None and value and math.isfinite(value):
        value = round(value, digits - 1 - math.floor(math.log10(abs(value))))
    return format(value, shape)


if __name__ == "__main__":
    main()
