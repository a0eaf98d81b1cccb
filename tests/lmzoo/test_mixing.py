"""Models that are trained already are mixed as they would be had they been trained together."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import lmzoo
from lmzoo.budget import Budget
from lmzoo.cli.group import cli
from lmzoo.corpus import Corpus
from lmzoo.errors import InputError, SpecError, UnknownModelError, VocabularyMismatchError
from lmzoo.mixing import holds_training_text
from lmzoo.mixture import MixtureConfig, MixtureModel, MixtureTrainer, MixtureWarning
from lmzoo.ngram.config import NgramConfig
from lmzoo.ngram.trainer import NgramTrainer
from lmzoo.registry import resolve_config

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
        (["trigram", "other"], VocabularyMismatchError, "model 2 has another vocabulary than model 1: symbols 5 inst"),
        (["trigram", ":kn5"], InputError, "'kn5' has to be trained before"),
        (["trigram", ":cahce"], UnknownModelError, "Did you mean 'cache'"),
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


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"kind": "geo"}, "kind of mixture is one of linear, loglinear, got 'geo'"),
        ({"kind": "log-linear"}, "Did you mean 'loglinear'"),
        ({"kind": None}, "one of linear, loglinear, got None"),
        ({"weights": "many"}, "weights of mixture is one of one, context, got 'many'"),
        ({"weights": ["one"]}, "of type list"),
        ({"kind": "loglinear", "weights": "context"}, "belongs to kind=linear"),
    ],
)
def test_options_are_those_of_a_spec(corpus: Corpus, options: dict[str, Any], told: str) -> None:
    model = lmzoo.train(BIGRAM, corpus)
    with pytest.raises(SpecError, match=told):
        lmzoo.mix([model, "cache"], corpus.valid, **options)
    with pytest.raises(SpecError, match=told):
        MixtureConfig(**options)


def test_nor_has_a_mixture_that_is_put_together_others(corpus: Corpus) -> None:
    model = lmzoo.train(BIGRAM, corpus)
    with pytest.raises(SpecError, match="one of linear, loglinear, got 'geo'"):
        MixtureModel([model, model], [0.5, 0.5], mixing="geo")  # type: ignore[arg-type]
    for weight in (math.nan, math.inf):
        with pytest.raises(InputError, match="finite"):
            MixtureModel([model, model], [weight, 0.5], mixing="loglinear")


@pytest.mark.parametrize("models", ["cache", 3, None, "model"])
def test_one_model_is_no_list(corpus: Corpus, models: Any) -> None:
    given = lmzoo.train(BIGRAM, corpus) if models == "model" else models
    with pytest.raises(InputError, match="models are a list of two or more"):
        lmzoo.mix(given, corpus.valid)


def test_what_is_no_distribution_has_no_weight_in_a_mean(corpus: Corpus) -> None:
    """Scores that sum to more than 1 would win by that alone; a normalised product makes them a distribution."""
    stupid, bigram = lmzoo.train("ngram:order=3,smoothing=sb", corpus), lmzoo.train(BIGRAM, corpus)
    with pytest.raises(SpecError, match="the scores of model 2 do not sum to 1"):
        lmzoo.mix([bigram, stupid], corpus.valid)
    with pytest.raises(SpecError, match="ngram:order=3,smoothing=sb do not sum to 1"):
        resolve_config("mixture:ngram(order=3,smoothing=sb)+kn5")
    product = lmzoo.mix([bigram, stupid], corpus.valid, kind="loglinear")
    np.testing.assert_allclose(np.exp(product.next_logprobs(product.initial_state())).sum(), 1, rtol=1e-12)
    # of single tokens it is one
    assert resolve_config("mixture:ngram(order=1,smoothing=sb)+kn5").kind == "linear"


def test_a_model_whose_config_does_not_tell_is_found_out_when_it_is_trained(corpus: Corpus) -> None:
    trainers = [NgramTrainer(NgramConfig(order=2, smoothing=name), corpus.vocab) for name in ("sb", "wb")]
    trainer = MixtureTrainer(MixtureConfig(parts={"odd": None, "even": None}), trainers)
    with pytest.raises(SpecError, match="the scores of odd do not sum to 1"):
        next(trainer.steps(corpus.train, corpus.valid, np.random.default_rng(0), Budget()))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"documents": "line"}, "documents line instead of file, </s> yes instead of no"),
        ({"tokens": "word"}, "tokens word instead of char"),
        ({"normalize": "lower"}, "normalize lower instead of none"),
        ({"min_freq": 20}, "min-freq 20 instead of 1"),
    ],
)
def test_another_vocabulary_is_told_with_the_option_that_differs(
    corpus: Corpus, options: dict[str, Any], told: str
) -> None:
    other = lmzoo.corpus_from_texts({"train": TEXT, "valid": TEXT, "test": TEXT}, **options)
    models = [lmzoo.train(BIGRAM, each) for each in (corpus, other)]
    with pytest.raises(VocabularyMismatchError, match=f"b has another vocabulary than a: .*{told}"):
        lmzoo.mix(["cache", *models], corpus.valid, names=["cache", "a", "b"])
    with pytest.raises(VocabularyMismatchError, match=f"the validation text was encoded with .* model 1: .*{told}"):
        lmzoo.mix([models[0], models[0]], other.valid)


def test_more_classes_of_contexts_than_can_be_numbered_are_one(corpus: Corpus) -> None:
    models = [lmzoo.train(TRIGRAM, corpus)] * 50
    mixed = lmzoo.mix(models, corpus.valid)
    assert mixed.contexts is None
    np.testing.assert_allclose(mixed.weights_K, 1 / 50)
    with pytest.raises(InputError, match=r"--weights one"):
        lmzoo.mix(models, corpus.valid, weights="context")


def test_what_the_mixture_finds_impossible_is_told_with_a_cure() -> None:
    """Training has a and b follow each other only, so two of the four tokens of aabb are impossible by counts alone."""
    corpus = lmzoo.corpus_from_texts({"train": "ababab", "valid": "aabb", "test": "ab"})
    rough, smooth = lmzoo.train("ngram:order=2,smoothing=mle", corpus), lmzoo.train(BIGRAM, corpus)
    with pytest.warns(MixtureWarning, match=r"2 of the 4 tokens .* by every model.*kn5"):
        mixed = lmzoo.mix([rough, rough], corpus.valid)
    assert math.isinf(lmzoo.evaluate(mixed, corpus.valid).perplexity)
    with pytest.warns(MixtureWarning, match=r"2 of the 4 tokens .* by rough, and .*kind=linear"):
        lmzoo.mix([rough, smooth], corpus.valid, kind="loglinear", names=["rough", "smooth"])
    with pytest.warns(MixtureWarning, match="by every model"):
        lmzoo.train("mixture:ngram(order=2,smoothing=mle)+ngram(order=2,smoothing=mle)", corpus)
    assert math.isfinite(lmzoo.evaluate(lmzoo.mix([rough, smooth], corpus.valid), corpus.valid).perplexity)


def test_the_text_that_the_models_were_trained_on_is_told(corpus: Corpus) -> None:
    models = [lmzoo.train(name, corpus) for name in (BIGRAM, TRIGRAM)]
    for text in (TEXT, "To sit is what the cat did. " + TEXT):
        again = lmzoo.corpus_from_texts({"train": text, "valid": text, "test": text})
        with pytest.warns(MixtureWarning, match="own training text"):
            lmzoo.mix(models, again.train.encoded_with(corpus.vocab))
    # neither a part of it, nor another of its length, nor one so long that its counts are all above
    for text in (TEXT[:-20], TEXT.replace("log", "mat"), TEXT * 3):
        other = lmzoo.corpus_from_texts({"train": text, "valid": text, "test": text})
        assert not holds_training_text(other.train.encoded_with(corpus.vocab))


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
        assert "fitting weights on 143 tokens of " in done.stderr.splitlines()[0]
        assert "valid.txt, 0 of them OOV" in done.stderr
        assert "warning: 143 known tokens are too few to tell which of 3 models" in done.stderr
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

    def test_the_text_may_be_in_another_encoding(self, folder: Path) -> None:
        (folder / "wide.txt").write_text("the cät ", encoding="utf-16")
        asked = [str(folder / "bigram.lm"), "cache", "-o", str(folder / "m.lm")]
        refused = self.asked(folder, *asked, "--text", str(folder / "wide.txt"))
        assert "--encoding utf-16" in str(refused.exception)
        done = self.asked(folder, *asked, "--text", str(folder / "wide.txt"), "--encoding", "utf-16")
        assert done.exit_code == 0, done.output
        assert "fitting weights on 8 tokens of " in done.stderr
        assert "1 of them OOV" in done.stderr
        useless = self.asked(folder, *asked, "--corpus", "markov", "--encoding", "utf-16")
        assert "are for --text" in useless.output

    def test_an_older_mixture_is_kept_where_there_is_no_new_one(self, folder: Path, corpus: Corpus) -> None:
        lmzoo.save(lmzoo.train("ngram:order=2,smoothing=sb", corpus), folder / "sb.lm")
        (folder / "m.lm").write_bytes(b"old")
        text = ("--text", str(folder / "valid.txt"))
        done = self.asked(folder, str(folder / "bigram.lm"), str(folder / "sb.lm"), *text, "-o", str(folder / "m.lm"))
        assert f"the scores of {folder / 'sb.lm'} do not sum to 1" in str(done.exception)
        assert (folder / "m.lm").read_bytes() == b"old"

    def test_what_log_linear_weights_are_fitted_on_is_told(
        self, folder: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of all that whole distributions of two models over the vocabulary would take, 100 tokens are worked on."""
        monkeypatch.setattr("lmzoo.mixture.trainer._FIT_CELLS", 100 * 2 * len(corpus.vocab))
        files = [str(folder / name) for name in ("bigram.lm", "trigram.lm")]
        text = ("--text", str(folder / "valid.txt"), "--kind", "loglinear")
        done = self.asked(folder, *files, *text, "-o", str(folder / "m.lm"))
        assert done.exit_code == 0, done.output
        assert "fitting weights on the first 100 of 143 tokens of " in done.stderr
        assert "slow" in done.stderr
        assert "warning" not in done.stderr

    def test_what_it_cannot_do_is_told_before_anything_is_written(self, folder: Path) -> None:
        model, text = str(folder / "bigram.lm"), str(folder / "valid.txt")
        for arguments, told in (
            (["cache", "cache", "--text", text, "-o", str(folder / "m.lm")], "needs a model that was trained"),
            ([model, "--text", text, "-o", str(folder / "m.lm")], "at least two models"),
            ([model, model, "-o", str(folder / "m.lm")], "give one of: --text FILE or --corpus NAME"),
            ([model, model, "--corpus", "genesiss", "-o", str(folder / "m.lm")], "genesiss"),
            ([model, model, "--text", text, "-o", model], "bigram.lm"),
            ([model, str(folder / "none.lm"), "--text", text, "-o", str(folder / "m.lm")], "none.lm"),
            (
                [model, "cahce", "--text", text, "-o", str(folder / "m.lm")],
                "no model file 'cahce'. Did you mean 'cache'?",
            ),
            ([model, "unigram", "--text", text, "-o", str(folder / "m.lm")], "train unigram TEXT -o FILE"),
        ):
            done = self.asked(folder, *arguments)
            assert done.exit_code != 0
            assert told in done.output + str(done.exception)
        assert not (folder / "m.lm").exists()
