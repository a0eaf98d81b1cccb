"""What is compared with what.  Each side is made ready untimed, on a text of which only one line is as never before."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lmzoo
from benchmarks import kenlm_binaries, kenlm_module
from benchmarks.workbench import Workbench, encoded, spec
from lmzoo.corpus import Corpus, corpus_from_texts
from lmzoo.evaluation import token_nats

# a timed action, which says how many items (models, tokens, sentences) it dealt with
Action = Callable[[], int]
ROOT = Path(__file__).parents[1]

# nltk counts this many lines, and scores this many of them, in about a second
_NLTK_LINES = 20_000
_NLTK_ORDER = 3
_NLTK_SCORED_LINES = 4
_SENTENCES = 2_000
_NEXT_TOKENS = 1_000
_DISTRIBUTIONS = 50


@dataclass(frozen=True, kw_only=True)
class Side:
    """One way to do it: `prepare` takes the workbench and a fresh variant of the text and gives what is timed."""

    name: str
    prepare: Callable[[Workbench, Path], Action]


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Two sides doing the same.

    `per` is the item that time is given for, `bar` how many times faster `ours` is to be; `missing` says why `theirs`
    cannot run here, and how to get it.
    """

    what: str
    per: str
    ours: Side
    theirs: Side
    missing: Callable[[], str | None]
    bar: float | None = None
    rounds: int = 7


def _nltk_missing() -> str | None:
    return None if importlib.util.find_spec("nltk") else "nltk is not installed: python -m pip install nltk"


def _once(act: Callable[[], object]) -> Action:
    def action() -> int:
        act()
        return 1

    return action


def _train(bench: Workbench, text: Path, order: int) -> Action:
    def action() -> int:
        corpus = bench.corpus(text)
        # whatever a model puts off until it is asked is part of its being usable
        lmzoo.evaluate(lmzoo.train(spec(order), corpus), corpus.test)
        return 1

    return action


def _train_in_a_process(bench: Workbench, text: Path, order: int) -> Action:
    files = ("--train", str(text), "--valid", str(bench.short), "--test", str(bench.short))
    output = bench.folder / "trained.lm"
    command = [sys.executable, "-m", "lmzoo", "train", spec(order), *files, "--tokens", "word", "-o", str(output)]

    def action() -> int:
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        return 1

    return action


def _lmplz(bench: Workbench, text: Path, order: int) -> Action:
    return _once(lambda: kenlm_binaries.lmplz(text, order, bench.folder / "variant.arpa"))


def _perplexity(bench: Workbench, text: Path) -> Action:
    path = bench.saved(5)

    def action() -> int:
        model = lmzoo.load(path)
        lmzoo.evaluate(model, encoded(model, text))
        return 1

    return action


def _query(bench: Workbench, text: Path) -> Action:
    binary = bench.binary(5)
    return _once(lambda: kenlm_binaries.query(binary, text))


def _logprobs(bench: Workbench, text: Path) -> Action:
    # a model that nothing was asked of yet: what it makes at its first use is timed
    model = lmzoo.load(bench.saved(5))
    split = encoded(model, text)
    return _once(lambda: token_nats(model, split))


def _few_lines(text: Path) -> list[str]:
    return text.read_text(encoding="utf-8").splitlines()[:_NLTK_LINES]


def _few(lines: Sequence[str]) -> Corpus:
    return corpus_from_texts({"train": "\n".join(lines), "valid": lines[0], "test": lines[0]}, tokens="word")


def _fit(bench: Workbench, text: Path) -> Action:
    lines = _few_lines(text)

    def action() -> int:
        corpus = _few(lines)
        lmzoo.train(spec(_NLTK_ORDER), corpus)
        return corpus.train.n_tokens

    return action


def _fitted_nltk(sentences: Sequence[Sequence[str]]) -> Any:
    from nltk.lm import KneserNeyInterpolated
    from nltk.lm.preprocessing import padded_everygram_pipeline

    model = KneserNeyInterpolated(_NLTK_ORDER)
    model.fit(*padded_everygram_pipeline(_NLTK_ORDER, sentences))
    return model


def _fit_nltk(bench: Workbench, text: Path) -> Action:
    sentences = [line.split() for line in _few_lines(text)]

    def action() -> int:
        _fitted_nltk(sentences)
        return sum(len(words) + 1 for words in sentences)

    return action


def _score(bench: Workbench, text: Path) -> Action:
    corpus = _few(_few_lines(text))
    model = lmzoo.train(spec(_NLTK_ORDER), corpus)

    def action() -> int:
        return len(token_nats(model, corpus.train))

    return action


def _score_nltk(bench: Workbench, text: Path) -> Action:
    from nltk.lm.preprocessing import pad_both_ends
    from nltk.util import ngrams

    sentences = [line.split() for line in _few_lines(text)]
    model = _fitted_nltk(sentences)
    scored = [
        gram
        for words in sentences[-_NLTK_SCORED_LINES:]
        for gram in list(ngrams(pad_both_ends(words, _NLTK_ORDER), _NLTK_ORDER))[: len(words) + 1]
    ]

    def action() -> int:
        for *context, word in scored:
            model.logscore(word, context)
        return len(scored)

    return action


def _sentences(text: Path) -> list[str]:
    return text.read_text(encoding="utf-8").splitlines()[:_SENTENCES]


def _rank(bench: Workbench, text: Path) -> Action:
    model, sentences = lmzoo.load(bench.saved(5)), _sentences(text)
    return lambda: len(lmzoo.rank(model, sentences))


def _kenlm_scores(bench: Workbench, text: Path) -> Action:
    model, sentences = kenlm_module.Reader(bench.binary(5)).model, _sentences(text)

    def action() -> int:
        scores = [(model.score(sentence), sentence) for sentence in sentences]
        scores.sort(reverse=True)
        return len(scores)

    return action


def _next_tokens(bench: Workbench, text: Path) -> Action:
    model = lmzoo.load(bench.saved(5))
    tokens_Lx1x1 = encoded(model, text).ids_N[:_NEXT_TOKENS, None, None]

    def action() -> int:
        state = model.initial_state()
        for token_1x1 in tokens_Lx1x1:
            _, state = model.logprobs(token_1x1, state)
        return len(tokens_Lx1x1)

    return action


def _words(text: Path) -> list[str]:
    return text.read_text(encoding="utf-8").replace("\n", " </s> ").split()


def _kenlm_next_tokens(bench: Workbench, text: Path) -> Action:
    reader, words = kenlm_module.Reader(bench.binary(5)), _words(text)[:_NEXT_TOKENS]
    return lambda: sum(1 for _ in reader.states(words))


def _distributions(bench: Workbench, text: Path) -> Action:
    model = lmzoo.load(bench.saved(5))
    tokens_Lx1x1 = encoded(model, text).ids_N[:_DISTRIBUTIONS, None, None]
    # what is made at the first question is no part of the latency of the next ones
    model.next_logprobs(model.initial_state(bos=False))

    def action() -> int:
        state = model.initial_state()
        for token_1x1 in tokens_Lx1x1:
            model.next_logprobs(state)
            _, state = model.logprobs(token_1x1, state)
        return len(tokens_Lx1x1)

    return action


def _kenlm_distributions(bench: Workbench, text: Path) -> Action:
    reader, words = kenlm_module.Reader(bench.binary(5)), _words(text)[:_DISTRIBUTIONS]

    def action() -> int:
        for state in reader.states(words):
            reader.distribution(state, bench.vocabulary)
        return len(words)

    return action


def _training(order: int) -> tuple[Contest, Contest]:
    def side(name: str, prepare: Callable[[Workbench, Path, int], Action]) -> Side:
        return Side(name=name, prepare=lambda bench, text: prepare(bench, text, order))

    theirs = side("lmplz", _lmplz)
    return (
        Contest(
            what=f"text file to usable model, order {order}",
            per="model",
            ours=side("lmzoo", _train),
            theirs=theirs,
            missing=kenlm_binaries.missing,
            bar=2.0,
        ),
        Contest(
            what=f"the same as a process that writes the model, order {order}",
            per="model",
            ours=side("python -m lmzoo train", _train_in_a_process),
            theirs=theirs,
            missing=kenlm_binaries.missing,
        ),
    )


CONTESTS: tuple[Contest, ...] = (
    *_training(3),
    *_training(5),
    Contest(
        what="text file to perplexity, order 5",
        per="text",
        ours=Side(name="lmzoo", prepare=_perplexity),
        theirs=Side(name="query", prepare=_query),
        missing=kenlm_binaries.missing,
        bar=1.5,
    ),
    Contest(
        what="ids in memory to log-probabilities, order 5",
        per="text",
        ours=Side(name="lmzoo", prepare=_logprobs),
        theirs=Side(name="query", prepare=_query),
        missing=kenlm_binaries.missing,
        bar=3.0,
    ),
    Contest(
        what="sentences from Python, order 5",
        per="sentence",
        ours=Side(name="lmzoo.rank", prepare=_rank),
        theirs=Side(name="kenlm.Model.score", prepare=_kenlm_scores),
        missing=kenlm_module.missing,
    ),
    Contest(
        what="one next token from Python, order 5",
        per="token",
        ours=Side(name="lmzoo", prepare=_next_tokens),
        theirs=Side(name="kenlm.Model.BaseScore", prepare=_kenlm_next_tokens),
        missing=kenlm_module.missing,
    ),
    Contest(
        what="distribution of the next token from Python, order 5",
        per="distribution",
        ours=Side(name="lmzoo", prepare=_distributions),
        theirs=Side(name="kenlm.Model.BaseScore of each word", prepare=_kenlm_distributions),
        missing=kenlm_module.missing,
    ),
    Contest(
        what=f"fit on {_NLTK_LINES:,} lines in memory, order {_NLTK_ORDER}",
        per="token",
        ours=Side(name="lmzoo", prepare=_fit),
        theirs=Side(name="nltk.lm KneserNeyInterpolated", prepare=_fit_nltk),
        missing=_nltk_missing,
        bar=30.0,
        rounds=5,
    ),
    Contest(
        what=f"log-probabilities after that fit, order {_NLTK_ORDER}",
        per="token",
        ours=Side(name="lmzoo", prepare=_score),
        theirs=Side(name="nltk.lm KneserNeyInterpolated", prepare=_score_nltk),
        missing=_nltk_missing,
        bar=10_000.0,
        rounds=5,
    ),
)


def load_compiled_code() -> None:
    """What a process that scores much text has loaded before long; without numba there is nothing to load."""
    with contextlib.suppress(ImportError):
        importlib.import_module("lmzoo.compiled.ngrams")
        importlib.import_module("lmzoo.compiled.words")
