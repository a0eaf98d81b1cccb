"""The models by name, as a table of strings: looking at it loads none of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from lmzoo.errors import SpecError

Family = Literal["counting", "neural", "coder"]
# among the recorded options of a model: the code that installed packages bring to it
PACKAGES_SHA256 = "packages_sha256"


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """How a named model is made: exactly one of `trainer`, `reader` and `coder` says so.

    Attributes:
        config: `module:class` of its frozen config dataclass; the module imports nothing heavy.
        trainer: `module:class`, called as `trainer(config, vocab, device)`.
        reader: `module:function`, called as `reader(config, device)`: the model, with a vocabulary of its own.
        coder: `module:class`, called as `coder(config)`.
        stored: `module:class` that reads its model files, for what a package adds; its `kind` is the entry's name.
        fixed: options that the name itself sets (`trigram` is `ngram` of order 3).
        value: the field of the config that a bare value fills (`kenlm:<path>`: `path`); None: there is none.
        family: `counting` models have no device path and are deterministic; `neural` ones have both options; a
            `coder` is a compressor.
        requires: libraries, by import name, and the extra that installs them.
        in_all: whether `--models all` has it or, of a peer, `--models peers`.
        is_peer: the work of others: another library's models, compressors, what an installed package adds.
        fault: why nobody can make it: an installed package whose entry cannot be loaded.
        package: the installed package that adds it; None: lmzoo itself.
    """

    name: str
    description: str
    config: str
    trainer: str | None = None
    reader: str | None = None
    coder: str | None = None
    stored: str | None = None
    family: Family
    fixed: Mapping[str, str] = field(default_factory=dict)
    value: str | None = None
    requires: Mapping[str, str] = field(default_factory=dict)
    in_all: bool = True
    is_peer: bool = False
    fault: str | None = None
    package: str | None = None

    def __post_init__(self) -> None:
        if self.family not in get_args(Family):
            raise SpecError(f"family is one of {', '.join(get_args(Family))}, {self.name!r} has {self.family!r}")
        made_by = [name for name in ("trainer", "reader", "coder") if getattr(self, name) is not None]
        if len(made_by) != 1:
            raise SpecError(
                f"an entry has one of trainer, reader and coder, {self.name!r} has {' and '.join(made_by) or 'none'}"
            )
        if (self.family == "coder") != (made_by == ["coder"]):
            raise SpecError(f"family coder goes with a coder, {self.name!r} has {self.family} and a {made_by[0]}")

    @property
    def is_read(self) -> bool:
        """Whether it is read from a file, so that nothing is trained and its vocabulary is its own."""
        return self.reader is not None

    @property
    def module(self) -> str:
        """The module that makes it; importing it loads what the model needs."""
        made_by = self.trainer or self.reader or self.coder or ""
        return made_by.partition(":")[0]

    def missing(self) -> str | None:
        """Why it cannot run here, or None."""
        if self.fault is not None:
            return self.fault
        for library, extra in self.requires.items():
            if importlib.util.find_spec(library) is None:
                return f"{library} is not installed: python -m pip install 'lmzoo[{extra}]'"
        return None


_NGRAM = {
    "config": "lmzoo.ngram.config:NgramConfig",
    "trainer": "lmzoo.ngram.trainer:NgramTrainer",
    "family": "counting",
}
_RECURRENT = {
    "config": "lmzoo.neural.config:RecurrentConfig",
    "trainer": "lmzoo.neural.training:NeuralTrainer",
    "family": "neural",
    "requires": {"torch": "torch"},
}


def _entries() -> list[ModelEntry]:
    counting: list[ModelEntry] = [
        ModelEntry(name=name, description=description, fixed=fixed, in_all=in_all, **_NGRAM)  # type: ignore[arg-type]
        for name, description, fixed, in_all in (
            (
                "unigram",
                "token frequencies with add-one smoothing",
                {"order": "1", "smoothing": "addk", "k": "1"},
                True,
            ),
            ("bigram", "interpolated modified Kneser-Ney of order 2", {"order": "2", "smoothing": "mkn"}, True),
            ("trigram", "interpolated modified Kneser-Ney of order 3", {"order": "3", "smoothing": "mkn"}, True),
            ("kn5", "interpolated modified Kneser-Ney of order 5", {"order": "5", "smoothing": "mkn"}, True),
            ("ngram", "n-grams of any order, smoothing and pruning", {}, False),
        )
    ]
    neural: list[ModelEntry] = [
        ModelEntry(
            name=f"{cell}-{where}",
            description=f"{title}, {how}",
            fixed={"cell": cell, "kernel": kernel},
            **_RECURRENT,  # type: ignore[arg-type]
        )
        for where, kernel, how in (
            ("scratch", "scratch", "its cell written out here"),
            ("cudnn", "library", "torch's own layer: cuDNN on CUDA, torch's CPU kernels elsewhere"),
        )
        for cell, title in (
            ("rnn", "recurrent network (Elman)"),
            ("gru", "gated recurrent unit"),
            ("lstm", "long short-term memory"),
        )
    ]
    mlp = ModelEntry(
        name="mlp",
        description="feed-forward network over a fixed window (Bengio et al. 2003)",
        config="lmzoo.neural.config:WindowConfig",
        trainer="lmzoo.neural.training:NeuralTrainer",
        family="neural",
        requires={"torch": "torch"},
    )
    transformer = ModelEntry(
        name="transformer",
        description="small causal transformer (Vaswani et al. 2017), its attention a band of tokens",
        config="lmzoo.neural.config:TransformerConfig",
        trainer="lmzoo.neural.training:NeuralTrainer",
        family="neural",
        requires={"torch": "torch"},
    )
    skip = ModelEntry(
        name="skip",
        description="n-grams that pass over the last tokens, of use inside a mixture: mixture:kn5+skip",
        config="lmzoo.skipping:SkipConfig",
        trainer="lmzoo.skipping:SkipTrainer",
        family="counting",
        in_all=False,
    )
    mixture = ModelEntry(
        name=MIXTURE,
        description="several models as one, weights fitted on validation text: mixture:kn5+lstm-cudnn+cache",
        config="lmzoo.mixture:MixtureConfig",
        trainer="lmzoo.mixture:MixtureTrainer",
        family="counting",
        in_all=False,
    )
    return [*counting, skip, mlp, *neural, transformer, mixture]


MIXTURE = "mixture"
MODELS: Mapping[str, ModelEntry] = {entry.name: entry for entry in _entries()}


def _coders() -> list[ModelEntry]:
    return [
        ModelEntry(
            name=name,
            description=f"{title}: a compressor as a yardstick (adaptive)",
            config=f"lmzoo.adapters.compressors:{name.capitalize()}Config",
            coder=f"lmzoo.adapters.compressors:{name.capitalize()}Coder",
            family="coder",
            requires=requires,
            is_peer=True,
        )
        for name, title, requires in (
            ("ppmd", "prediction by partial matching", {"pyppmd": "compress"}),
            ("xz", "LZMA2", {}),
            ("zstd", "Zstandard", {"zstandard": "compress"}),
        )
    ]


def _peers() -> list[ModelEntry]:
    nltk = [
        ModelEntry(
            name=f"nltk-{smoothing}",
            description=f"{title}, by nltk.lm",
            config="lmzoo.adapters.nltk_lm:NltkConfig",
            trainer="lmzoo.adapters.nltk_lm:NltkTrainer",
            family="counting",
            fixed={"smoothing": smoothing},
            requires={"nltk": "text"},
            is_peer=True,
        )
        for smoothing, title in (
            ("mle", "relative frequencies"),
            ("laplace", "add-one"),
            ("lidstone", "add-gamma"),
            ("kn", "interpolated Kneser-Ney"),
            ("wb", "interpolated Witten-Bell"),
            ("ad", "interpolated absolute discounting"),
            ("stupid", "stupid back-off (no distribution)"),
        )
    ]
    kenlm = ModelEntry(
        name="kenlm",
        description="a model of KenLM, read from its ARPA or binary file: kenlm:<path>",
        config="lmzoo.adapters.kenlm_lm:KenlmConfig",
        reader="lmzoo.adapters.kenlm_lm:read_kenlm",
        value="path",
        family="counting",
        requires={"kenlm": "kenlm"},
        in_all=False,
        is_peer=True,
    )
    hf = ModelEntry(
        name="hf",
        description="a causal model of transformers, read from its folder: hf:<path>",
        config="lmzoo.adapters.hf_lm:HfConfig",
        reader="lmzoo.adapters.hf_lm:read_hf",
        value="path",
        family="neural",
        requires={"torch": "hf", "tokenizers": "hf", "transformers": "hf"},
        in_all=False,
        is_peer=True,
    )
    return [*nltk, kenlm, hf, *_coders()]


# the work of others; those in no preset need the path of a file
PEERS: Mapping[str, ModelEntry] = {entry.name: entry for entry in _peers()}

# what exists only inside a mixture
PARTS: Mapping[str, ModelEntry] = {
    "cache": ModelEntry(
        name="cache",
        description="what was said lately is likely to be said again (adaptive)",
        config="lmzoo.cache:CacheConfig",
        trainer="lmzoo.cache:CacheTrainer",
        family="counting",
        in_all=False,
    )
}

# the only classes that a model file can name
STORED_KINDS: Mapping[str, str] = {
    "ngram": "lmzoo.ngram.model:NgramModel",
    "recurrent": "lmzoo.neural.models:RecurrentModel",
    "recurrent-cache": "lmzoo.neural.caching:CachingModel",
    "recurrent-dynamic": "lmzoo.neural.dynamic:DynamicModel",
    "window": "lmzoo.neural.models:WindowModel",
    "transformer": "lmzoo.neural.attending:TransformerModel",
    "skip": "lmzoo.skipping:SkipModel",
    "cache": "lmzoo.cache:CacheModel",
    "mixture": "lmzoo.mixture:MixtureModel",
    "nltk": "lmzoo.adapters.nltk_lm:NltkModel",
}
