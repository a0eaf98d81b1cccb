"""The code of an installed package, as one hash: other code may give other results."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from lmzoo.catalogue import ModelEntry
from lmzoo.files import sha256_of

_OWN = "lmzoo"
# Python's own, and renewed whenever it likes
_COMPILED = "__pycache__"


def sha256_of_package(entry: ModelEntry) -> str | None:
    """Of all files of the modules and packages that an entry names and that its package installs; None: lmzoo's own.

    Of a package all files count, as weights and tables decide results too, but for hidden ones and compiled ones.
    Places do not count.
    """
    if entry.package is None:
        return None
    digest = hashlib.sha256()
    for root in sorted(set(_roots(entry)), key=lambda path: path.name):
        for path in _files(root):
            digest.update(f"{path.relative_to(root.parent).as_posix()}\0{sha256_of(path)}\0".encode())
    return digest.hexdigest()


def _roots(entry: ModelEntry) -> Iterator[Path]:
    named = {text.partition(":")[0] for text in (entry.config, entry.module, entry.stored or "")}
    for module in (named | _installed(str(entry.package))) - {""}:
        if module.partition(".")[0] != _OWN:
            yield from _root(module)


def _installed(package: str) -> set[str]:
    """The top-level modules that a package says it has; what stands in files beside the model's decides too."""
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return set()
    told = (distribution.read_text("top_level.txt") or "").split()
    files = (file.parts[0].removesuffix(".py") for file in distribution.files or () if file.suffix == ".py")
    return {name for name in (*told, *files) if name.isidentifier()}


def _root(module: str) -> Iterator[Path]:
    """The file of a module, or the folder of the outermost package that it is in; a namespace has no code itself."""
    names = module.split(".")
    for depth in range(1, len(names) + 1):
        try:
            spec = importlib.util.find_spec(".".join(names[:depth]))
        # what is not there, or is in a half state, fails with its own reason when it is loaded
        except (ImportError, ValueError):
            return
        if spec is None:
            return
        if spec.origin is not None:
            yield Path(spec.origin) if spec.submodule_search_locations is None else Path(spec.origin).parent
            return


def _files(root: Path) -> list[Path]:
    if root.is_file():
        return [root]
    found = (path.relative_to(root) for path in root.rglob("*"))
    shown = (path for path in found if not any(part == _COMPILED or part.startswith(".") for part in path.parts))
    return [root / path for path in sorted(shown) if (root / path).is_file()]
