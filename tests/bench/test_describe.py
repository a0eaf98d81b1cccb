"""Models, texts and devices resolved before a run: presets, what cannot run here, one policy for a plan."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import describe
from bench.describe import COUNTING_SET, answer, read_corpus, resolve_corpora, resolve_models
from bench.environment import text_name
from bench.records import CorpusSpec, Question
from bench.run import command
from lmzoo import registry
from lmzoo.errors import MissingLibraryError, SpecError
from lmzoo.registry import MODELS, ModelEntry
from lmzoo.tokenizers import TOKENIZER_KINDS
from tests.lmzoo.tokenizing import WORD_LEVEL, of_file


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat\n" * 50, encoding="utf-8")
    return str(path)


def names(models: str) -> list[str]:
    return [model.model for model in resolve_models(models)[0]]


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every model that requires a library lacks it."""
    monkeypatch.setattr(ModelEntry, "missing", lambda self: "not installed" if self.requires else None)


def test_counting_is_its_documented_set() -> None:
    assert names("counting") == list(COUNTING_SET)


@pytest.mark.usefixtures("no_library")
def test_what_all_cannot_run_is_listed_and_the_rest_runs() -> None:
    models, unavailable = resolve_models("all")
    heavy = [name for name, entry in MODELS.items() if entry.in_all and entry.requires]
    assert [model.model for model in models] == ["unigram", "bigram", "trigram", "kn5"]
    assert unavailable == dict.fromkeys(heavy, "not installed")


@pytest.mark.usefixtures("no_library")
def test_what_was_named_itself_must_run() -> None:
    with pytest.raises(MissingLibraryError, match="lstm-scratch: not installed"):
        resolve_models("all,lstm-scratch")


@pytest.mark.usefixtures("no_library")
def test_peers_need_no_path_and_absent_ones_are_listed() -> None:
    models, unavailable = resolve_models("peers")
    assert "xz" in [model.model for model in models]
    assert {"ppmd", "zstd"} <= set(unavailable)
    assert not [name for name in (*unavailable, *names("peers")) if ":" in name]


def test_what_another_package_registers_is_a_peer_and_not_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = dataclasses.replace(MODELS["bigram"], name="foreign", is_peer=True)
    monkeypatch.setattr(describe, "all_entries", lambda: {**MODELS, "foreign": foreign})
    monkeypatch.setattr(registry, "all_entries", lambda: {**MODELS, "foreign": foreign})
    assert names("peers")[-1] == "foreign"
    assert "foreign" not in names("counting,all")


def test_a_model_named_twice_runs_once() -> None:
    assert names("kn5,counting,kn5").count("kn5") == 1


def test_options_split_and_join_as_in_a_spec() -> None:
    assert names("ngram:order=2,smoothing=mle,unigram") == ["ngram:order=2,smoothing=mle", "unigram"]


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ("lstn", "no model 'lstn'. Did you mean 'lstm-scratch'?"),
        ("countin", "Did you mean 'counting'?"),
        ("kn5:k=1,,", "not key=value|an empty item"),
        ("all:order=2", "'all' stands for several models and takes no options"),
        ("ngram:order=0", "order must be 1 to"),
        ("ngram:smoothing=mkm", "Did you mean 'mkn'?"),
    ],
)
def test_models_that_cannot_be_meant(models: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        resolve_models(models)


def test_several_tokenizers_share_the_line_policy(text: str) -> None:
    both = [CorpusSpec(name=text, tokens=tokens) for tokens in ("char", "word")]
    assert [facts.documents for facts in resolve_corpora(both)[1]] == ["line", "line"]
    assert [facts.documents for facts in resolve_corpora(both[:1])[1]] == ["file"]
    asked = [spec.model_copy(update={"documents": "running"}) for spec in both]
    assert [facts.documents for facts in resolve_corpora(asked)[1]] == ["running", "running"]


def test_one_text_given_twice_is_one_corpus(text: str) -> None:
    corpora, facts = resolve_corpora([CorpusSpec(name=text), CorpusSpec(name=text, tokens="char")])
    assert len(corpora) == len(facts) == 1


def test_texts_of_one_name_are_told_apart_in_facts_and_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text(f"the {folder} cat sat\n" * 50, encoding="utf-8")
    asked = [
        CorpusSpec(name=f"{folder}/a.txt", tokens=tokens) for folder in ("old", "new") for tokens in ("char", "word")
    ]
    corpora, facts = resolve_corpora(asked)
    assert [found.name for found in facts] == ["old/a.txt", "old/a.txt", "new/a.txt", "new/a.txt"]
    assert [read_corpus(spec).name for spec in corpora] == [found.name for found in facts]
    assert [text_name(spec) for spec in corpora] == [found.name for found in facts]
    alone = resolve_corpora(asked[:2])
    assert [found.name for found in alone[1]] == ["a.txt", "a.txt"]
    assert [spec.label for spec in alone[0]] == [None, None]


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "cpu:0", "cud", ""])
def test_a_device_that_is_none(text: str, device: str) -> None:
    error = answer(Question(models="kn5", corpora=(CorpusSpec(name=text),), devices=(device,))).error
    assert error is not None
    assert error.startswith(f"no device {device!r}.")


@pytest.mark.whole
@pytest.mark.torch
def test_a_gpu_that_is_not_here_is_an_error(text: str) -> None:
    import torch

    wanted = f"cuda:{torch.cuda.device_count() + 1}"
    error = answer(Question(models="kn5", corpora=(CorpusSpec(name=text),), devices=(wanted,))).error
    assert error is not None
    assert error.startswith(f"device {wanted!r} is not here")
    assert "\n" not in error


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_a_pipe_is_no_text_of_a_run(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    told = answer(Question(models="unigram", corpora=(CorpusSpec(name=str(pipe)),), devices=("cpu",)))
    assert told.error is not None
    assert "pipe is no regular file, and every trial reads it anew; save its text to a file" in told.error


def test_a_tokenizer_file_is_remembered_by_its_path(tmp_path: Path) -> None:
    # each trial reads it again; its facts go by its name alone
    of_file(WORD_LEVEL, tmp_path)
    text = tmp_path / "a.txt"
    text.write_text("a b a\n" * 40, encoding="utf-8")
    path = str(tmp_path / "tokenizer.json")
    specs, facts = resolve_corpora([CorpusSpec(name=str(text), tokens=path)])
    assert specs[0].tokens == path
    assert facts[0].tokenizer == "tokenizer.json"
    assert read_corpus(specs[0]).vocab.fingerprint == facts[0].vocab_fingerprint


@pytest.mark.parametrize("name", ["-", "./pipes/*"])
def test_what_ends_when_it_is_read_is_no_text_of_a_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipes").mkdir()
    os.mkfifo(tmp_path / "pipes" / "pipe")
    told = answer(Question(models="unigram", corpora=(CorpusSpec(name=name),), devices=("cpu",)))
    assert told.error is not None
    assert "is no regular file, and every trial reads it anew" in told.error


def test_a_folder_is_read_in_the_encoding_asked_for_and_the_record_says_what_became_of_it(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes("the cafe\u0301 caf\u00e9\n".encode() * 20 + b"\xff\n")
    spec = CorpusSpec(name=str(tmp_path), tokens="word", normalize="nfc", invalid="replace")
    (facts,) = answer(Question(models="unigram", corpora=(spec,), devices=("cpu",))).facts
    assert (facts.name, facts.normalize, facts.n_replaced, facts.n_normalized) == (tmp_path.name, "nfc", 3, 120)
    # of each file twenty lines and one, and the whole is cut 80/10/10
    assert facts.n_train_documents + 2 * facts.n_test_documents == 63
    told = answer(Question(models="unigram", corpora=(CorpusSpec(name=str(tmp_path)),), devices=("cpu",)))
    assert told.error is not None
    assert "is not UTF-8: byte 0xff at offset 340;" in told.error


def test_models_of_one_file_name_are_numbered_and_their_folders_stay_here(monkeypatch: pytest.MonkeyPatch) -> None:
    of_path = {"name": "of-path", "config": f"{__name__}:OfPath", "value": "path"}
    entries = {**MODELS, "of-path": dataclasses.replace(MODELS["bigram"], fixed={}, **of_path)}
    monkeypatch.setattr(describe, "all_entries", lambda: entries)
    monkeypatch.setattr(registry, "all_entries", lambda: entries)
    typed = "of-path:/a/m,of-path:/b/m,of-path:run1/m,of-path:'/c/m',of-path:x,beside=/a/n,of-path:x,beside=/b/n"
    # the same twice is one
    assert names(f"{typed},of-path:/a/m") == [
        "of-path:m",
        "of-path:m (2)",
        "of-path:run1/m",
        "of-path:m (3)",
        "of-path:x,beside=n",
        "of-path:x,beside=n (2)",
    ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class OfPath:
    """Options that are paths."""

    path: str
    beside: str = ""


def test_the_help_of_a_run_lists_every_kind_of_tokens() -> None:
    shown = " ".join(CliRunner().invoke(command, ["--help"]).stdout.split())
    assert f"separated by commas: {', '.join(TOKENIZER_KINDS)}." in shown
