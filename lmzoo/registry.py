"""Models by name.  Everything is a string here, so that listing models loads none of them.

There are three kinds: what is trained here (`create_trainer`), what another program trained and is read from its file
(`read_model`), and compressors, which only have a code length (`create_coder`).

A third-party package adds its own under the entry point group `lmzoo.models`: an entry's value is `module:ENTRY`, where
ENTRY is a `ModelEntry`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import importlib.metadata
import itertools
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from lmzoo.catalogue import MIXTURE, MODELS, PACKAGES_SHA256, PARTS, PEERS, STORED_KINDS, Family, ModelEntry
from lmzoo.errors import (
    MissingLibraryError,
    OptionValueError,
    SpecError,
    UnknownModelError,
    UnknownOptionError,
    did_you_mean,
)
from lmzoo.interface import Coder, LanguageModel, Storable, Trainer
from lmzoo.mixture import MixtureConfig, MixtureTrainer
from lmzoo.packages import sha256_of_package
from lmzoo.recipe_files import is_file, read_recipe
from lmzoo.spec import Spec, as_spec, configure, converted, parse_parts, quoted
from lmzoo.vocab import Vocab

__all__ = [
    "MIXTURE",
    "MODELS",
    "PACKAGES_SHA256",
    "PEERS",
    "STORED_KINDS",
    "Family",
    "ModelEntry",
    "all_entries",
    "available_models",
    "create_coder",
    "create_trainer",
    "entries_of",
    "family_of",
    "find_entry",
    "is_read",
    "missing_for",
    "read_model",
    "recorded_options",
    "resolve_config",
    "shown",
    "stored_class",
    "stored_path",
]

ENTRY_POINTS = "lmzoo.models"
# options of a recipe file that may be in the way of what was given
_MOST_DROPPED = 2


@cache
def all_entries() -> Mapping[str, ModelEntry]:
    """Every model: lmzoo's own, its adapters, what installed packages add; a name of lmzoo's own is never replaced."""
    found = {**MODELS, **PEERS}
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        if point.name not in found:
            found[point.name] = _loaded_entry(point)
    return found


def _loaded_entry(point: importlib.metadata.EntryPoint) -> ModelEntry:
    """What an entry point names; a package that is broken is listed with its fault and breaks nothing else."""
    distribution = getattr(point, "dist", None)
    package = None if distribution is None else distribution.name
    try:
        entry = point.load()
        if not isinstance(entry, ModelEntry):
            raise TypeError(f"{point.value} is no ModelEntry but of type {type(entry).__name__}")
        if entry.name != point.name:
            raise ValueError(f"{point.value} is named {entry.name!r}, not {point.name!r}")
    # whatever a foreign module does while it is imported, the end of the program among it
    except (Exception, SystemExit) as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        fault = f"the package that adds it is installed but cannot be loaded ({why})"
        return ModelEntry(
            name=point.name,
            description="",
            config="",
            trainer="",
            family="counting",
            is_peer=True,
            fault=fault,
            package=package,
        )
    return dataclasses.replace(entry, is_peer=True, package=package)


def find_entry(name: str, *, is_part: bool = False) -> ModelEntry:
    """The entry of this name, or of this part of a mixture.  Raises `UnknownModelError`, naming the closest."""
    if name in PARTS and not is_part:
        raise SpecError(f"{name} exists only inside a mixture, such as mixture:kn5+{name}")
    entries = {**all_entries(), **PARTS} if is_part else all_entries()
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


def family_of(spec: Spec) -> Family:
    """A mixture is neural if any part of it is."""
    families = {entry.family for entry in entries_of(spec)}
    return "neural" if "neural" in families else families.pop()


def is_read(spec: Spec | str) -> bool:
    """Whether a spec names what is read from a file: `read_model` opens it, and there is nothing to train."""
    spec = as_spec(spec)
    return spec.name in all_entries() and all_entries()[spec.name].is_read


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
    spec = as_spec(spec)
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
    if entry.fault is not None:
        raise MissingLibraryError(f"{spec.name}: {entry.fault}")
    if is_part and entry.trainer is None:
        what = "is read from a file and has a vocabulary of its own" if entry.is_read else "is a compressor"
        raise SpecError(f"{spec.name} {what}, so it is no part of a mixture; name what is trained here, such as kn5")
    config = _load(entry.config)
    options = _with_value(spec, entry)
    given = {**entry.fixed, **_not_fixed(options, entry)}
    needed = next((f.name for f in dataclasses.fields(config) if _is_needed(f) and f.name not in given), None)
    if needed is not None:
        written = f"{spec.name}:<{needed}>" if needed == entry.value else f"{spec.name}:{needed}=…"
        raise SpecError(f"{spec.name} needs its {needed}; write {written}, got {spec.text!r}")
    recipe = options.get("recipe", "")
    if is_file(recipe):
        del given["recipe"]
        return _with_recipe_file(entry, config, given, recipe)
    if recipe and not _has_recipes(config):
        raise OptionValueError(
            f"recipe of {spec.name} is a file ending in .json (in quotes if its path has commas or parentheses), "
            f"got {recipe!r}"
        )
    return configure(config, given, spec.name, fixed=entry.fixed)


def _not_fixed(options: Mapping[str, Any], entry: ModelEntry) -> Mapping[str, Any]:
    """The options, once none of them is one that the model's name says."""
    taken = sorted(set(options) & set(entry.fixed))
    if taken:
        free = [one.name for one in MODELS.values() if one.config == entry.config and taken[0] not in one.fixed]
        cure = f"use {free[0]}:{taken[0]}=…" if free else "use another model's name"
        raise UnknownOptionError(f"{taken[0]!r} of {entry.name} is part of its name ({entry.fixed[taken[0]]}); {cure}")
    return options


def _has_recipes(config: type[Any]) -> bool:
    """Whether a config knows recipes by name and remembers which it has."""
    return "recipe" in {f.name for f in dataclasses.fields(config)}


def _with_recipe_file(entry: ModelEntry, config: type[Any], options: Mapping[str, Any], path: str) -> Any:
    """The config of a spec that names a recipe file: what is given outweighs the file.

    An error tells of the spec alone where the spec alone is at fault, and of the file otherwise.
    """
    given = converted(config, options, entry.name, fixed=entry.fixed)
    read = read_recipe(path)
    label = {"recipe": read.label} if _has_recipes(config) else {}
    try:
        found = converted(config, _not_fixed(read.options, entry), entry.name, fixed=entry.fixed)
        return configure(config, {**_beside(config, found, given, entry.fixed), **given, **label}, entry.name)
    except (OptionValueError, UnknownOptionError) as error:
        if str(error) == f"{entry.name}: {_fault_of(config, given)}":
            raise
        raise type(error)(f"{error}; {path} is a recipe of {read.model}") from error


def _beside(
    config: type[Any], found: Mapping[str, Any], given: Mapping[str, Any], fixed: Mapping[str, Any]
) -> Mapping[str, Any]:
    """What a recipe file holds, without what cannot go with what was given although the file alone is in order."""
    weighed = getattr(config, "beside", None)
    kept: Mapping[str, Any] = found if weighed is None else weighed(found, given)
    if _fault_of(config, {**found, **fixed}) is not None:
        return kept
    for n_dropped in range(_MOST_DROPPED + 1):
        for dropped in itertools.combinations(kept, n_dropped):
            rest = {name: value for name, value in kept.items() if name not in dropped}
            if _fault_of(config, {**rest, **given}) is None:
                return rest
    return kept


def _fault_of(config: type[Any], options: Mapping[str, Any]) -> str | None:
    """Why a config does not take these values beside one another, or None."""
    try:
        config(**options)
    except OptionValueError as error:
        return str(error)
    return None


def _is_needed(option: dataclasses.Field[Any]) -> bool:
    return option.default is option.default_factory is dataclasses.MISSING


def _with_value(spec: Spec, entry: ModelEntry) -> dict[str, str]:
    """The options of a spec, its bare value under the name that it has."""
    if spec.value is None:
        return dict(spec.options)
    if entry.value is None:
        raise SpecError(f"{spec.name} takes options as key=value, got {spec.value!r}")
    if entry.value in spec.options:
        raise SpecError(f"{entry.value!r} of {spec.name} is given twice in {spec.text!r}: once without its name")
    return {entry.value: spec.value, **spec.options}


def recorded_options(spec: Spec | str) -> dict[str, Any]:
    """Every resolved option as a record holds it: a file by its name and its sha256, never by its place.

    Where an installed package brings the model, or a part of it, the sha256 of its code is among them.

    Raises `StorageError` for a file that is not there.
    """
    spec = as_spec(spec)
    config = resolve_config(spec)
    own = getattr(config, "recorded", None)
    options: dict[str, Any] = dataclasses.asdict(config) if own is None else own()
    return {**options, **_packages_sha256(spec)}


def _packages_sha256(spec: Spec) -> dict[str, str]:
    hashes = [code for entry in entries_of(spec) if (code := sha256_of_package(entry)) is not None]
    if len(hashes) > 1:
        hashes = [hashlib.sha256("".join(hashes).encode()).hexdigest()]
    return {PACKAGES_SHA256: hashes[0]} if hashes else {}


def shown(spec: Spec) -> str:
    """A spec as typed, the absolute path of a file in it cut to the file's name."""
    entry = find_entry(spec.name)
    if entry.value is None:
        return spec.text
    options = _with_value(spec, entry)
    path = Path(options.pop(entry.value, ""))
    if not path.is_absolute():
        return spec.text
    items = [quoted(path.name), *(f"{key}={quoted(text)}" for key, text in options.items())]
    return f"{spec.name}:{','.join(items)}"


def create_trainer(spec: Spec | str, vocab: Vocab, *, device: str = "cpu") -> Trainer:
    """A trainer for a spec.  Raises `SpecError`, `MissingLibraryError`, `MissingDeviceError`."""
    spec = as_spec(spec)
    config = resolve_config(spec)
    _require_libraries(spec)
    if spec.name == MIXTURE:
        made = zip(entries_of(spec), config.parts.values(), strict=True)
        return MixtureTrainer(config, [_load(str(entry.trainer))(part, vocab, device) for entry, part in made])
    entry = find_entry(spec.name)
    if entry.trainer is None:
        cure = f"open it with lmzoo.read_model({spec.text!r})"
        if entry.coder is not None:
            cure = f"a compressor is no model; lmzoo.code_length({spec.text!r}, corpus) tells how many bits it needs"
        raise SpecError(f"{spec.text!r} is not trained here: {cure}")
    trainer: Trainer = _load(entry.trainer)(config, vocab, device)
    return trainer


def read_model(spec: Spec | str, *, device: str = "cpu") -> LanguageModel[Any]:
    """The model of a spec such as `kenlm:model.arpa`, read from its file, with a vocabulary of its own.

    A text is scored by it once it is encoded so: `evaluate(model, split.encoded_with(model.vocab))`.

    Raises `SpecError` for what is trained here, `StorageError` for a file that cannot be read, `UnavailableError`.
    """
    spec = as_spec(spec)
    entry = find_entry(spec.name)
    if entry.reader is None:
        raise SpecError(f"{spec.text!r} is not read from a file; those that are: {', '.join(_names_of('reader'))}")
    config = resolve_config(spec)
    _require_libraries(spec)
    model: LanguageModel[Any] = _load(entry.reader)(config, device)
    return model


def create_coder(spec: Spec | str) -> Coder:
    """The compressor of a spec.  Raises `SpecError`, `MissingLibraryError`."""
    spec = as_spec(spec)
    entry = find_entry(spec.name)
    if entry.coder is None:
        raise SpecError(f"{spec.text!r} is no compressor; those that are: {', '.join(_names_of('coder')) or 'none'}")
    config = resolve_config(spec)
    _require_libraries(spec)
    coder: Coder = _load(entry.coder)(config)
    return coder


def _names_of(made_by: str) -> list[str]:
    return [name for name, entry in all_entries().items() if getattr(entry, made_by) is not None]


def _require_libraries(spec: Spec) -> None:
    reason = missing_for(spec)
    if reason:
        raise MissingLibraryError(f"{spec.name}: {reason}")


def stored_path(kind: str) -> str | None:
    """`module:class` of what reads model files of this kind: lmzoo's own, or what an installed package says."""
    if kind in STORED_KINDS:
        return STORED_KINDS[kind]
    entry = all_entries().get(kind)
    return None if entry is None else entry.stored


def stored_class(kind: str) -> type[Storable] | None:
    """The class that reads model files of this kind, or None.  Raises `MissingLibraryError` where it needs torch."""
    path = stored_path(kind)
    if path is None:
        return None
    try:
        loaded: type[Storable] = _load(path)
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
