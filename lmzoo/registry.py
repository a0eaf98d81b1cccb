"""Models by name.  Everything is a string here, so that listing models loads none of them.

A third-party package adds its own under the entry point group `lmzoo.models`: an entry's value is `module:ENTRY`, where
ENTRY is a `ModelEntry`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from lmzoo.errors import MissingLibraryError, SpecError, UnknownModelError, UnknownOptionError, did_you_mean
from lmzoo.interface import Storable, Trainer
from lmzoo.mixture import MixtureConfig, MixtureTrainer
from lmzoo.spec import Spec, configure, parse_parts, parse_spec
from lmzoo.vocab import Vocab

ENTRY_POINTS = "lmzoo.models"


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """How a named model is made.

    Attributes:
        config: `module:class` of its frozen config dataclass; the module imports nothing heavy.
        trainer: `module:class`, called as `trainer(config, vocab, device)`.
        fixed: options that the name itself sets (`trigram` is `ngram` of order 3).
        family: `counting` models have no device path and are deterministic; `neural` ones have both options.
        requires: libraries, by import name, and the extra that installs them.
        in_all: whether `--models all` has it.
    """

    name: str
    description: str
    config: str
    trainer: str
    family: Literal["counting", "neural"]
    fixed: Mapping[str, str] = field(default_factory=dict)
    requires: Mapping[str, str] = field(default_factory=dict)
    in_all: bool = True

    def missing(self) -> str | None:
        """Why it cannot run here, or None."""
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
    mixture = ModelEntry(
        name=MIXTURE,
        description="several models as one, weights fitted on validation text: mixture:kn5+lstm-cudnn+cache",
        config="lmzoo.mixture:MixtureConfig",
        trainer="lmzoo.mixture:MixtureTrainer",
        family="counting",
        in_all=False,
    )
    return [*counting, mlp, *neural, transformer, mixture]


MIXTURE = "mixture"
MODELS: Mapping[str, ModelEntry] = {entry.name: entry for entry in _entries()}

# what exists only inside a mixture
_PARTS: Mapping[str, ModelEntry] = {
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
    "window": "lmzoo.neural.models:WindowModel",
    "transformer": "lmzoo.neural.attending:TransformerModel",
    "cache": "lmzoo.cache:CacheModel",
    "mixture": "lmzoo.mixture:MixtureModel",
}


@cache
def all_entries() -> Mapping[str, ModelEntry]:
    """The models of lmzoo's own and those that installed packages add; a name of lmzoo's own is never replaced."""
    found = dict(MODELS)
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        found.setdefault(point.name, point.load())
    return found


def find_entry(name: str, *, is_part: bool = False) -> ModelEntry:
    """The entry of this name, or of this part of a mixture.  Raises `UnknownModelError`, naming the closest."""
    if name in _PARTS and not is_part:
        raise SpecError(f"{name} exists only inside a mixture, such as mixture:kn5+{name}")
    entries = {**all_entries(), **_PARTS} if is_part else all_entries()
    if name not in entries:
        raise UnknownModelError(
            f"no model {name!r}.{did_you_mean(name, entries)} List them with: python -m lmzoo models"
        )
    return entries[name]


def entries_of(spec: Spec) -> list[ModelEntry]:
    """The entry of a spec; for a mixture those of its parts."""
    if spec.name != MIXTURE:
        return [find_entry(spec.name)]
    return [find_entry(part.name, is_part=True) for part in _mixture_parts(spec)]


def family_of(spec: Spec) -> Literal["counting", "neural"]:
    """A mixture is neural if any part of it is."""
    return "neural" if any(entry.family == "neural" for entry in entries_of(spec)) else "counting"


def missing_for(spec: Spec) -> str | None:
    """Why a spec cannot run here, or None."""
    return next((reason for entry in entries_of(spec) if (reason := entry.missing())), None)


def _mixture_parts(spec: Spec) -> list[Spec]:
    parts = parse_parts(spec)
    if not parts:
        raise SpecError(f"{spec.text!r} names no models; write such as mixture:kn5+cache")
    if len(parts) < 2:
        raise SpecError(f"a mixture has at least two parts, got {spec.text!r}; write such as mixture:kn5+cache")
    if any(part.name == MIXTURE for part in parts):
        raise SpecError(f"no mixture inside a mixture, got {spec.text!r}; name all parts side by side")
    return parts


def available_models() -> dict[str, str]:
    """Every model's description by name, with the reason where it cannot run here."""
    return {
        name: entry.description + (f" (not here: {reason})" if (reason := entry.missing()) else "")
        for name, entry in all_entries().items()
    }


def resolve_config(spec: Spec | str) -> Any:
    """The validated config of a spec.  Loads no model and no heavy library."""
    spec = parse_spec(spec) if isinstance(spec, str) else spec
    if spec.name == MIXTURE:
        if "parts" in spec.options:
            raise UnknownOptionError(
                f"parts of a mixture are named after its colon, such as mixture:kn5+cache, got {spec}"
            )
        # numbered: two parts may be alike
        numbered = enumerate(_mixture_parts(spec), start=1)
        parts = {f"{n}: {part.text}": _resolve_single(part, is_part=True) for n, part in numbered}
        return configure(MixtureConfig, {"parts": parts, **spec.options}, "mixture")
    return _resolve_single(spec)


def _resolve_single(spec: Spec, *, is_part: bool = False) -> Any:
    entry = find_entry(spec.name, is_part=is_part)
    if spec.value is not None:
        raise SpecError(f"{spec.name} takes options as key=value, got {spec.value!r}")
    taken = sorted(set(spec.options) & set(entry.fixed))
    if taken:
        raise UnknownOptionError(
            f"{taken[0]!r} of {spec.name} is part of its name ({entry.fixed[taken[0]]}); use another model's name"
        )
    return configure(_load(entry.config), {**entry.fixed, **spec.options}, spec.name, fixed=entry.fixed)


def create_trainer(spec: Spec | str, vocab: Vocab, *, device: str = "cpu") -> Trainer:
    """A trainer for a spec.  Raises `SpecError`, `MissingLibraryError`, `MissingDeviceError`."""
    spec = parse_spec(spec) if isinstance(spec, str) else spec
    config = resolve_config(spec)
    reason = missing_for(spec)
    if reason:
        raise MissingLibraryError(f"{spec.name}: {reason}")
    if spec.name == MIXTURE:
        made = zip(entries_of(spec), config.parts.values(), strict=True)
        return MixtureTrainer(config, [_load(entry.trainer)(part, vocab, device) for entry, part in made])
    trainer: Trainer = _load(find_entry(spec.name).trainer)(config, vocab, device)
    return trainer


def stored_class(kind: str) -> type[Storable] | None:
    """The class that reads model files of this kind, or None.  Raises `MissingLibraryError` where it needs torch."""
    if kind not in STORED_KINDS:
        return None
    try:
        loaded: type[Storable] = _load(STORED_KINDS[kind])
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingLibraryError(
            f"the file holds a network ({kind}), which needs torch: python -m pip install 'lmzoo[torch]'"
        ) from error
    return loaded


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
