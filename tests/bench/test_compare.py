"""Two runs side by side: what is compared, what is refused, and what counts as a change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.compare import compare_runs, main
from bench.records import CorpusFacts, CorpusSpec, TrialRecord
from lmzoo.errors import InputError
from tests.bench.synthetic import facts, failed, ok, repeats, trial, write


def two(tmp_path: Path, before: list[TrialRecord], after: list[TrialRecord], **changes: Any) -> tuple[Path, Path]:
    return write(tmp_path / "a", before), write(tmp_path / "b", after, **changes)


def judged(tmp_path: Path, before: TrialRecord, after: TrialRecord) -> dict[str, str]:
    changes, refusals = compare_runs(*two(tmp_path, [before], [after]))
    assert refusals == []
    return {change.metric: change.judgement for change in changes}


@pytest.mark.parametrize(("after", "judgement"), [(4.4, "same"), (4.0, "better"), (5.0, "worse")])
def test_perplexity_is_judged_by_the_paired_test(tmp_path: Path, after: float, judgement: str) -> None:
    assert judged(tmp_path, ok(trial("kn5"), 4.4), ok(trial("kn5"), after))["test perplexity"] == judgement


def test_another_seed_of_the_same_recipe_is_noise(tmp_path: Path) -> None:
    before, after = (ok(trial("mlp", seed=seed), 4.4) for seed in (0, 1))
    assert judged(tmp_path, before, after)["test perplexity"] == "within noise"


def test_speed_is_judged_by_quartiles_and_direction(tmp_path: Path) -> None:
    slow = ok(trial("kn5"), 4.4, measures={"eval_tokens_per_s": repeats(100.0), "next_token_us": repeats(30.0)})
    fast = ok(trial("kn5"), 4.4, measures={"eval_tokens_per_s": repeats(200.0), "next_token_us": repeats(30.1)})
    found = judged(tmp_path, slow, fast)
    assert (found["scoring tokens/s"], found["next token, µs"]) == ("better", "within noise")


def test_a_figure_measured_once_is_shown_and_not_judged(tmp_path: Path) -> None:
    found = judged(tmp_path, ok(trial("kn5"), 4.4, memory_mib=60), ok(trial("kn5"), 4.4, memory_mib=90))
    assert found["memory above baseline"] == "not judged"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sha256": "cd" * 32}, "another text"),
        ({"vocab_fingerprint": "beef"}, "another vocabulary"),
    ],
)
def test_unlike_rows_are_refused_with_the_reason(tmp_path: Path, change: dict[str, str], why: str) -> None:
    other = facts(**change)
    same = ok(trial("bigram"), 9.0)
    folders = two(
        tmp_path,
        [ok(trial("kn5"), 4.4), same],
        [ok(trial("kn5", corpus=other), 4.4, corpus=other), same],
        corpora=(facts(), other),
    )
    changes, refusals = compare_runs(*folders)
    assert {change.model for change in changes} == {"bigram"}
    assert len(refusals) == 1
    assert why in refusals[0]


def test_other_rules_are_refused(tmp_path: Path) -> None:
    newer = ok(trial("kn5"), 4.4, changes={"rules_version": 2})
    with pytest.raises(InputError, match="another version of the rules"):
        compare_runs(*two(tmp_path, [ok(trial("kn5"), 4.4)], [newer], rules_version=2))


def test_failures_and_rows_of_one_run_only_are_named(tmp_path: Path) -> None:
    before = [ok(trial("kn5"), 4.4), ok(trial("mlp"), 5.0), ok(trial("bigram"), 9.0)]
    after = [ok(trial("kn5"), 4.4), failed(trial("mlp"), "diverged", "at step 3"), ok(trial("unigram"), 17.0)]
    _, refusals = compare_runs(*two(tmp_path, before, after))
    assert [refusal.split(": ", 1)[1] for refusal in refusals] == [
        "diverged in the second run (at step 3)",
        "only in the first run",
        "only in the second run",
    ]


def test_the_command(tmp_path: Path) -> None:
    a, b = two(tmp_path, [ok(trial("kn5[x]"), 4.4)], [ok(trial("kn5[x]"), 4.0)])
    done = CliRunner().invoke(main, [str(a), str(b)])
    assert done.exit_code == 0
    assert "kn5[x]" in done.stdout
    assert "better" in done.stdout


def test_each_text_has_a_heading_and_a_table_of_its_own(tmp_path: Path) -> None:
    char, word = facts(), facts(tokenizer="word", documents="line", vocab_fingerprint="beef")
    specs = [
        trial("kn5", corpus=c, trial_id=c.tokenizer).model_copy(update={"corpus": spec_of(c)}) for c in (char, word)
    ]
    records = [ok(spec, 4.4, corpus=c) for spec, c in zip(specs, (char, word), strict=True)]
    a, b = two(tmp_path, records, records, corpora=(char, word))
    lines = CliRunner().invoke(main, [str(a), str(b)]).stdout.splitlines()
    headings = [line for line in lines if line.startswith("On ")]
    assert headings == [
        "On genesis (char, normalised with letters, a document per file):",
        "On genesis (word, normalised with letters, a document per line):",
    ]
    for heading in headings:
        below = lines[lines.index(heading) + 1 :]
        assert "model" in below[1]
        assert "kn5" in below[3]


def spec_of(corpus: CorpusFacts) -> CorpusSpec:
    return CorpusSpec(name=corpus.name, tokens=corpus.tokenizer, documents=corpus.documents)


def test_what_is_no_run_ends_with_one_line_and_exit_2(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [ok(trial("kn5"), 4.4)])
    done = CliRunner().invoke(main, [str(a), str(tmp_path / "nothing")])
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
