"""What a run can do here: models, texts and devices resolved before the first trial.

It runs in a short child process (`python -m bench.worker --describe`), because it loads numpy and reads the texts.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bench.environment import distinct_names, without_folders
from bench.records import Answer, CorpusFacts, CorpusSpec, ModelFacts, Question
from lmzoo.corpus import Corpus, load_corpus
from lmzoo.driver import DEFAULT_NEURAL_SECONDS
from lmzoo.errors import (
    InputError,
    LmzooError,
    MissingDeviceError,
    MissingLibraryError,
    SpecError,
    UnknownModelError,
    did_you_mean,
)
from lmzoo.inputs import can_be_read_again, files_of, is_text
from lmzoo.registry import all_entries, family_of, find_entry, is_read, missing_for, recorded_options, shown
from lmzoo.sources import default_tokens, is_named
from lmzoo.spec import Spec, parse_spec, parse_specs

# the counting models worth comparing with one another; documented in docs/models.md
COUNTING_SET = (
    "unigram",
    "bigram",
    "trigram",
    "kn5",
    "ngram:order=4",
    "ngram:order=6",
    "ngram:smoothing=kn",
    "ngram:smoothing=ad",
    "ngram:smoothing=wb",
    "ngram:smoothing=jm",
    "ngram:smoothing=katz",
    "ngram:interpolated=false",
    "ngram:discounts=tuned",
    "ngram:prune=1e-5",
    "ngram:bits=8",
    "ngram:order=3,smoothing=addk",
    "ngram:order=3,smoothing=mle",
    "mixture:unigram+bigram+trigram+kn5",
)
# words of --models that stand for several models
PRESETS = ("all", "counting", "peers")
_DEVICES = ("cpu", "cuda")


def answer(question: Question) -> Answer:
    """Everything that was asked, resolved; or the one line that says why the run cannot start."""
    try:
        for device in question.devices:
            check_device(device, is_elsewhere=question.is_elsewhere)
        models, unavailable = resolve_models(question.models)
        corpora, facts = resolve_corpora(question.corpora)
    except (LmzooError, OSError) as error:
        return Answer(error=" ".join(str(error).split()))
    return Answer(
        models=tuple(models),
        unavailable=unavailable,
        corpora=tuple(corpora),
        facts=tuple(facts),
        default_budget_s=DEFAULT_NEURAL_SECONDS,
    )


def check_device(device: str, *, is_elsewhere: bool = False) -> None:
    """Raise `MissingDeviceError` unless trials can run on it here, or unless there are such devices `is_elsewhere`."""
    kind, _, index = device.partition(":")
    if kind not in _DEVICES or (":" in device and (kind == "cpu" or not index.isdecimal())):
        close = " Did you mean 'cuda'?" if kind == "gpu" else did_you_mean(device, _DEVICES)
        raise MissingDeviceError(f"no device {device!r}.{close} There are: cpu, cuda, cuda:0, cuda:1 …")
    if kind == "cpu" or is_elsewhere:
        return
    try:
        import torch
    except ImportError as error:
        raise MissingLibraryError(
            f"device {device!r} needs torch, which is not installed: python -m pip install 'lmzoo[torch]'"
        ) from error
    if not torch.cuda.is_available():
        build = "has no CUDA" if torch.version.cuda is None else f"is for CUDA {torch.version.cuda} and finds no GPU"
        raise MissingDeviceError(f"device {device!r} is not here: torch {torch.__version__} {build}; use --device cpu")
    if index and int(index) >= torch.cuda.device_count():
        raise MissingDeviceError(f"device {device!r} is not here: this machine has {torch.cuda.device_count()} GPUs")


def resolve_models(text: str) -> tuple[list[ModelFacts], dict[str, str]]:
    """The models of a `--models` text, each once, and those of a preset that cannot run here, with the reason.

    Raises `SpecError`; and `MissingLibraryError` for a model that was named itself and cannot run.
    """
    models: dict[str, ModelFacts] = {}
    specs = parse_specs(text)
    unavailable: dict[str, str] = {}
    for spec, is_asked_for in _expand(specs):
        facts = model_facts(spec)
        reason = missing_for(spec)
        if reason and is_asked_for:
            raise MissingLibraryError(f"{spec.name}: {reason}")
        if reason:
            unavailable[facts.model] = reason
        else:
            models.setdefault(facts.spec, facts)
    return _told_apart(models.values()), unavailable


def _told_apart(models: Iterable[ModelFacts]) -> list[ModelFacts]:
    """Those that share a label numbered: what tells them apart is a folder, which stays here.  Each is a row."""
    labels: set[str] = set()
    found = []
    for model in models:
        name = label = without_folders(model.model)
        for n in itertools.count(2):
            if label not in labels:
                break
            label = f"{name} ({n})"
        labels.add(label)
        found.append(model.model_copy(update={"model": label}))
    return found


def model_facts(spec: Spec) -> ModelFacts:
    """A model's resolved options, as JSON values."""
    options = {key: _plain(value) for key, value in recorded_options(spec).items()}
    return ModelFacts(
        model=shown(spec),
        spec=spec.text,
        options=options,
        family=family_of(spec),
        description=find_entry(spec.name).description,
        is_read=is_read(spec),
    )


def _expand(specs: Sequence[Spec]) -> Iterator[tuple[Spec, bool]]:
    """Each spec and whether it was named itself; presets give way to their models."""
    for spec in specs:
        if spec.name not in PRESETS:
            if spec.name not in all_entries():
                close = did_you_mean(spec.name, [*all_entries(), *PRESETS])
                raise UnknownModelError(f"no model {spec.name!r}.{close} List them with: python -m lmzoo models")
            yield spec, True
            continue
        if spec.options or spec.value is not None:
            raise SpecError(f"{spec.name!r} stands for several models and takes no options, got {spec.text!r}")
        for member in _members(spec.name):
            yield parse_spec(member), False


def _members(preset: str) -> Sequence[str]:
    """`all`: lmzoo's own models, each once; `peers`: those of others that need no path; `counting`: a fixed set."""
    if preset == "counting":
        return COUNTING_SET
    is_peer = preset == "peers"
    return [name for name, entry in all_entries().items() if entry.in_all and entry.is_peer == is_peer]


def resolve_corpora(asked: Sequence[CorpusSpec]) -> tuple[list[CorpusSpec], list[CorpusFacts]]:
    """Read every text once.  Several tokenizers in a plan share one policy: `line` unless another was asked for."""
    several = len({spec.tokens or default_tokens(spec.name) for spec in asked}) > 1
    corpora: list[CorpusSpec] = []
    facts: list[CorpusFacts] = []
    for spec in asked:
        require_files(spec)
        wanted = spec.model_copy(update={"documents": spec.documents or ("line" if several else None)})
        corpus = read_corpus(wanted)
        found = corpus_facts(corpus)
        if found not in facts:
            # the path of a tokenizer file as it was given: each trial reads it again
            tokens = wanted.tokens or corpus.tokenizer
            chosen = {"tokens": tokens, "normalize": corpus.normalize, "documents": corpus.documents}
            corpora.append(wanted.model_copy(update=chosen))
            facts.append(found)
    names = distinct_names([found.name for found in facts], corpora)
    labels = [None if name == found.name else name for name, found in zip(names, facts, strict=True)]
    return (
        [spec.model_copy(update={"label": label}) for spec, label in zip(corpora, labels, strict=True)],
        [found.model_copy(update={"name": name}) for found, name in zip(facts, names, strict=True)],
    )


def require_files(spec: CorpusSpec) -> None:
    """Raise `InputError` for a text in a pipe or a device: it is read again by each trial, and might never end."""
    train = [spec.train] if isinstance(spec.train, str) else (spec.train or ())
    # a name may be that of a corpus
    names = [name for name in (spec.name,) if name is not None and is_text(name) and not is_named(name)]
    for file in files_of([*names, *train, *filter(None, (spec.valid, spec.test))]):
        if not can_be_read_again(file):
            raise InputError(f"{file} is no regular file, and every trial reads it anew; save its text to a file")


def read_corpus(spec: CorpusSpec) -> Corpus:
    """The corpus of a spec.  Raises `InputError` and `OSError`."""
    corpus = load_corpus(**spec.model_dump(exclude={"label"}))
    return corpus if spec.label is None else dataclasses.replace(corpus, name=spec.label)


def corpus_facts(corpus: Corpus, *, vocabulary_of: str | None = None) -> CorpusFacts:
    """What a record holds of a text; `vocabulary_of`: the model whose own vocabulary it was encoded by."""
    return CorpusFacts(
        name=corpus.name,
        normalize=corpus.normalize,
        tokenizer=corpus.tokenizer,
        documents=corpus.documents,
        min_freq=corpus.vocab.min_freq,
        sha256=corpus.sha256,
        vocab_fingerprint=corpus.vocab.fingerprint,
        vocabulary_of=vocabulary_of,
        n_symbols=corpus.vocab.n_predictable,
        n_train_tokens=corpus.train.n_tokens,
        n_valid_tokens=corpus.valid.n_tokens,
        n_test_tokens=corpus.test.n_tokens,
        n_test_oov=corpus.test.n_oov,
        n_train_documents=len(corpus.train),
        n_test_documents=len(corpus.test),
        n_blank_lines=corpus.n_blank,
        n_markers=corpus.n_markers,
        n_normalized=corpus.n_normalized,
        n_replaced=corpus.n_replaced,
        test_overlap=corpus.test_overlap,
        entropy_nats=corpus.entropy_nats,
    )


def _plain(value: Any) -> str | int | float | bool | None:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return str(value)
