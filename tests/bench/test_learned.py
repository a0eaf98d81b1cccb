"""Models that are read, with a vocabulary of their own: what compares, what does not, and what never was."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import measure, throughput
from bench.learned import READ, Learned, has_same_symbols
from bench.measure import Trial
from bench.plan import Limits, make_plan
from bench.records import Answer, CorpusSpec, ModelFacts, TrialRecord
from bench.report import build
from bench.report.build import build_report
from bench.report.reading import read_run
from bench.report.rows import groups_of, rows_of
from bench.report.tables import targets_of
from lmzoo.corpus import load_corpus
from lmzoo.vocab import Vocab, build_vocab
from tests.bench.stubs import make_trial
from tests.bench.synthetic import facts, ok, trial, write
from tests.bench.test_throughput import Clock, Uniform

TEXT = "".join(f"the cat {'sat ' * (n % 5)}on the mat\n" for n in range(600))
Read = Callable[..., TrialRecord]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """The record of a trial of a uniform model that brings a vocabulary, under options of the corpus."""
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    monkeypatch.setattr(throughput, "REPEAT_S", 0.001)
    monkeypatch.setattr(measure, "is_read", lambda spec: True)

    def run(vocab_of: Callable[[Vocab], Vocab], model: type[Uniform] = Uniform, **corpus: Any) -> TrialRecord:
        spec = CorpusSpec(name=str(path), **corpus)
        own = vocab_of(load_corpus(path, **corpus).vocab)
        monkeypatch.setattr(measure, "read_model", lambda spec, device: model(own, Clock()))
        record = Trial(make_trial("unigram", corpus=spec), lambda: 1.0, lambda _: None).run()
        assert TrialRecord.model_validate_json(record.model_dump_json()) == record
        return record

    return run


def shuffled(vocab: Vocab) -> Vocab:
    """The same symbols under other ids, and no knowledge of spelling, as other programs' files have them."""
    reserved = 2 if vocab.eos_id is None else 3
    return Vocab(
        tokens=(*vocab.tokens[:reserved], *reversed(vocab.tokens[reserved:])),
        counts_V=np.zeros(len(vocab), np.int64),
        tokenizer=vocab.tokenizer,
        normalizer=vocab.normalizer,
    )


def fewer(vocab: Vocab) -> Vocab:
    """All but the rarest symbol."""
    known = shuffled(vocab)
    kept = [token for token in known.tokens if token != vocab.tokens[-1]]
    return dataclasses.replace(known, tokens=tuple(kept), counts_V=np.zeros(len(kept), np.int64))


def words(vocab: Vocab) -> Vocab:
    return build_vocab(["the cat sat on"], tokenizer="word", has_eos=True)


def test_nothing_was_trained_and_that_is_said(read: Read) -> None:
    record = read(shuffled)
    assert (record.status, record.train_s, record.curve) == ("ok", None, ())
    assert record.measured is not None
    for name in ("train_tokens", "train_tokens_per_s"):
        assert getattr(record.measured, name) is None
        assert record.measured.absent[name] == READ
    # what can be timed is
    assert record.measured.eval_tokens_per_s is not None
    assert record.measured.next_token_us is not None


def test_the_same_symbols_are_the_same_vocabulary_whatever_their_ids(read: Read) -> None:
    record = read(shuffled)
    assert record.corpus is not None
    assert record.measured is not None
    assert record.corpus.vocabulary_of is None
    assert record.measured.test.perplexity.value == pytest.approx(record.corpus.n_symbols)


def test_another_vocabulary_is_a_group_of_its_own(read: Read) -> None:
    record = read(words, documents="line")
    assert record.corpus is not None
    assert record.measured is not None
    assert (record.corpus.vocabulary_of, record.corpus.tokenizer, record.corpus.n_symbols) == ("unigram", "word", 6)
    assert record.measured.test.perplexity.value == pytest.approx(6.0)
    # "mat" of each line is unknown to it, and is charged its spelling
    assert record.corpus.n_test_oov == record.corpus.n_test_documents == record.measured.test.n_oov
    bits = record.measured.test.bits_per_byte.value
    assert bits is not None
    assert bits * record.measured.test.n_bytes > record.measured.test.n_tokens * math.log2(6)


def test_unknown_symbols_are_spelled_as_the_training_text_would(read: Read) -> None:
    """Under the corpus's own vocabulary with one symbol less, the charge is that of its own spelling."""
    record = read(fewer, min_freq=1)
    assert record.measured is not None
    test = record.measured.test
    assert test.n_oov > 0
    # uniform over one symbol less, and each unknown character spelled by the unigram of the training text
    corpus = load_corpus(Path(str(record.trial.corpus.name)))
    assert corpus.vocab.spelling is not None
    spelled = test.n_oov * corpus.vocab.spelling.nats(corpus.vocab.tokens[-1])
    nats = test.n_tokens * math.log(corpus.vocab.n_predictable - 1) + spelled
    assert test.bits_per_byte.value == pytest.approx(nats / math.log(2) / test.n_bytes)


def test_a_model_without_an_end_of_line_gets_no_line_for_nothing(read: Read) -> None:
    record = read(lambda vocab: build_vocab(["the cat"]), documents="line")
    assert record.status == "failed"
    assert "vocabulary has no end of a document, which every one has under line" in (record.reason or "")


class Undecided(Uniform):
    """NaN for every token."""

    def logprobs(self, tokens_BxL: Any, state: int) -> tuple[Any, int]:
        logprobs_BxL, state = super().logprobs(tokens_BxL, state)
        return np.full_like(logprobs_BxL, np.nan), state


def test_nan_is_an_invalid_trial_and_no_figure(read: Read) -> None:
    record = read(shuffled, Undecided)
    assert record.status == "invalid"
    assert record.reason
    assert record.measured is None or record.measured.test.perplexity.value is None


def test_what_answers_is_asked_once_it_has_answered() -> None:
    class Model:
        kernel_name = "scratch"

    model: Any = Model()
    learned = Learned(model=model, trained_by="scratch+numba", kept="last")
    assert learned.kernel == "scratch+numba, answers: scratch"
    # compiled code is taken up with the first tokens
    model.kernel_name = "scratch+numba"
    assert learned.kernel == "scratch+numba"


def test_symbols_are_the_same_only_where_texts_are_cut_alike() -> None:
    a = build_vocab(["ab"], tokenizer="char")
    assert has_same_symbols(a, shuffled(a))
    assert not has_same_symbols(a, build_vocab(["ab"], tokenizer="char", has_eos=True))
    assert not has_same_symbols(a, build_vocab(["a b"], tokenizer="word"))
    assert not has_same_symbols(a, dataclasses.replace(a, normalizer="lower"))


def test_seeds_and_budgets_are_for_what_is_trained() -> None:
    facts_of = {"options": {}, "family": "neural"}
    models = [
        ModelFacts(model=name, spec=name, is_read=name == "hf:a", **facts_of)  # type: ignore[arg-type]
        for name in ("hf:a", "mlp")
    ]
    answer = Answer(models=tuple(models), corpora=(CorpusSpec(name="text"),), facts=(facts(),))
    plan = make_plan(answer, devices=("cpu", "cuda"), seeds=2, limits=Limits(budget_s=9.0))
    assert [(t.model, t.device, t.seed, t.budget_s) for t in plan if t.model != "mlp"] == [
        ("hf:a", "cpu", 0, None),
        ("hf:a", "cuda", 0, None),
    ]
    assert len(plan) == 6


@pytest.fixture(autouse=True)
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_draw", lambda *_: ([], []))


def other_vocabulary(name: str, perplexity: float) -> TrialRecord:
    own = facts(vocabulary_of=name, vocab_fingerprint="beef", tokenizer="word")
    record = ok(trial(name, corpus=facts()), perplexity, corpus=own, changes={"curve": (), "train_s": None})
    assert record.measured is not None
    absent = dict.fromkeys(("train_s", "train_tokens", "train_tokens_per_s"), READ)
    measured = record.measured.model_copy(update={"absent": absent, "train_tokens": None, "train_tokens_per_s": None})
    return record.model_copy(update={"measured": measured})


def test_rows_of_other_vocabularies_are_ranked_by_themselves(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", [ok(trial("kn5"), 4.4), other_vocabulary("hf:a", 40.0)])
    rows = rows_of(read_run(folder))
    groups = groups_of(rows)
    assert [[row.model for row in members] for members in groups.values()] == [["kn5"], ["hf:a"]]
    assert [group.title for group in groups][1].startswith("genesis (the vocabulary of hf:a, word")
    # nothing was trained, so that nothing was reached or missed
    assert targets_of(rows[1:], [5.0]) == []
    assert build_report(folder) == []
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert f"training n/a: {READ}" in report
