"""Models that are trained already are mixed as they would be had they been trained together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import lmzoo
from lmzoo.cli.group import cli
from lmzoo.corpus import Corpus
from lmzoo.errors import InputError, SpecError, UnknownModelError, VocabularyMismatchError

pytestmark = pytest.mark.plain

BIGRAM, TRIGRAM = "ngram:order=2,smoothing=wb", "ngram:order=3,smoothing=wb"
WRITTEN = "ngram(order=2,smoothing=wb)+ngram(order=3,smoothing=wb)"
TEXT = "the cat sat on the mat; the dog sat on the log. " * 12


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return lmzoo.corpus_from_texts({"train": TEXT, "valid": TEXT[7:150], "test": TEXT[20:120]})


def test_it_is_the_mixture_that_is_trained_as_one(corpus: Corpus) -> None:
    """Counting models are the same trained alone or side by side, and so are the weights fitted on one text."""
    for options in ({}, {"weights": "one"}, {"kind": "loglinear"}):
        typed = "".join(f",{name}={value}" for name, value in options.items())
        whole = lmzoo.train(f"mixture:{WRITTEN}+cache(size=50){typed}", corpus)
        parts = [lmzoo.train(name, corpus) for name in (BIGRAM, TRIGRAM)]
        mixed = lmzoo.mix([*parts, "cache:size=50"], corpus.valid, **options)  # type: ignore[arg-type]
        np.testing.assert_allclose(mixed.weights_K, whole.weights_K, rtol=1e-12)  # type: ignore[attr-defined]
        assert lmzoo.evaluate(mixed, corpus.test) == lmzoo.evaluate(whole, corpus.test)


def test_it_is_no_worse_on_its_text_than_the_best_of_its_parts(corpus: Corpus) -> None:
    parts = [lmzoo.train(name, corpus) for name in ("unigram", TRIGRAM)]
    alone = [lmzoo.evaluate(part, corpus.valid).perplexity for part in parts]
    assert lmzoo.evaluate(lmzoo.mix(parts, corpus.valid), corpus.valid).perplexity <= min(alone) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("models", "error", "told"),
    [
        (["trigram"], InputError, "at least two models, got 1"),
        (["trigram", "other"], VocabularyMismatchError, "trained on one corpus"),
        (["trigram", ":kn5"], InputError, "'kn5' has to be trained before"),
        (["trigram", ":lstm-scratsh"], UnknownModelError, "Did you mean 'lstm-scratch'"),
        (["trigram", ":cache:size=0"], SpecError, "size of a cache must be at least 1"),
        (["trigram", 3], InputError, "int"),
    ],
)
def test_what_cannot_be_mixed_is_told(corpus: Corpus, models: list[Any], error: type[Exception], told: str) -> None:
    other = lmzoo.corpus_from_texts({"train": "xyz" * 9, "valid": "xyz", "test": "xyz"})
    made = {"trigram": lambda: lmzoo.train(TRIGRAM, corpus), "other": lambda: lmzoo.train(BIGRAM, other)}
    parts = [made[m]() if m in made else m.removeprefix(":") if isinstance(m, str) else m for m in models]
    with pytest.raises(error, match=told):
        lmzoo.mix(parts, corpus.valid)


def test_a_text_that_is_no_split_or_empty_is_told(corpus: Corpus) -> None:
    parts = [lmzoo.train(name, corpus) for name in ("unigram", TRIGRAM)]
    with pytest.raises(InputError, match=r"corpus\.valid"):
        lmzoo.mix(parts, "the cat")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no tokens"):
        lmzoo.mix(parts, corpus.valid.head(0))


class TestCommand:
    @pytest.fixture
    def folder(self, corpus: Corpus, tmp_path: Path) -> Path:
        for name, spec in (("bigram", BIGRAM), ("trigram", TRIGRAM)):
            lmzoo.save(lmzoo.train(spec, corpus), tmp_path / f"{name}.lm")
        (tmp_path / "valid.txt").write_text(TEXT[7:150])
        return tmp_path

    def asked(self, folder: Path, *arguments: str) -> Any:
        return CliRunner().invoke(cli, ["mix", *arguments], catch_exceptions=True)

    def test_it_writes_the_mixture_and_tells_the_weights(self, folder: Path, corpus: Corpus) -> None:
        files = [str(folder / name) for name in ("bigram.lm", "trigram.lm")]
        done = self.asked(folder, *files, "cache", "--text", str(folder / "valid.txt"), "-o", str(folder / "m.lm"))
        assert done.exit_code == 0, done.output
        assert "weights of all contexts: " in done.stderr
        assert "* (adaptive" in done.stderr
        parts = [lmzoo.load(file) for file in files]
        wanted = lmzoo.mix([*parts, "cache"], corpus.valid)
        found = lmzoo.load(folder / "m.lm")
        assert lmzoo.evaluate(found, corpus.test) == lmzoo.evaluate(wanted, corpus.test)

    def test_a_corpus_by_name_gives_its_validation_part(self, folder: Path) -> None:
        corpus = lmzoo.load_corpus("markov:length=9000")
        files = [str(folder / f"{order}.lm") for order in (1, 2)]
        models = [lmzoo.train(f"ngram:order={order},smoothing=wb", corpus) for order in (1, 2)]
        for model, file in zip(models, files, strict=True):
            lmzoo.save(model, file)
        done = self.asked(folder, *files, "--corpus", "markov:length=9000", "-o", str(folder / "m.lm"))
        assert done.exit_code == 0, done.output
        wanted = lmzoo.mix(models, corpus.valid)
        assert lmzoo.load(folder / "m.lm").weights_K.tolist() == wanted.weights_K.tolist()  # type: ignore[attr-defined]

    def test_what_it_cannot_do_is_told_before_anything_is_written(self, folder: Path) -> None:
        model, text = str(folder / "bigram.lm"), str(folder / "valid.txt")
        for arguments, told in (
            (["cache", "cache", "--text", text, "-o", str(folder / "m.lm")], "needs a model that was trained"),
            ([model, "--text", text, "-o", str(folder / "m.lm")], "at least two models"),
            ([model, model, "-o", str(folder / "m.lm")], "give one of: --text FILE or --corpus NAME"),
            ([model, model, "--corpus", "genesiss", "-o", str(folder / "m.lm")], "genesiss"),
            ([model, model, "--text", text, "-o", model], "bigram.lm"),
            ([model, str(folder / "none.lm"), "--text", text, "-o", str(folder / "m.lm")], "none.lm"),
        ):
            done = self.asked(folder, *arguments)
            assert done.exit_code != 0
            assert told in done.output + str(done.exception)
        assert not (folder / "m.lm").exists()
