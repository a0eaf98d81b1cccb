"""What the sides of a comparison work on: the text, a fresh variant of it for every repeat, models made of it once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import lmzoo
from benchmarks import kenlm_binaries
from benchmarks.synthetic import zipf_text
from lmzoo.corpus import Corpus, Split, encode_split
from lmzoo.markers import EOS, UNK
from lmzoo.ngram.quantize import quantize
from lmzoo.normalizers import named_normalizer
from lmzoo.parts import cut_segments
from lmzoo.reading import read_text
from lmzoo.sources import DATA_VARIABLE, SOURCES

# an ordinary word for KenLM's sake, which takes <unk> for its own
_UNK_SPELLED = "UNKTOK"
_SYNTHETIC_WORDS = 20_000
_HELD_OUT_LINES = 100

# what may be made of a model before it is written, its n-grams kept
SAVED_FORMS: Mapping[str, Callable[[Any], Any]] = {"exact": lambda model: model, "8 bits": quantize}


def spec(order: int) -> str:
    """The model that is compared: what `lmplz` estimates."""
    return f"ngram:order={order},smoothing=mkn"


class Workbench:
    """Penn Treebank words, or made-up ones where the corpora are not here, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name, self.lines, self.test_lines = _penn_treebank() if os.environ.get(DATA_VARIABLE) else _made_up()
        self._n_variants = 0
        self._trained = cache(lambda order: lmzoo.train(spec(order), self.corpus(self.text)))
        self.saved = cache(self._saved)
        self.arpa = cache(self._arpa)
        self.binary = cache(self._binary)

    def variant(self) -> Path:
        """A file with the training text, the words of one line turned round, each time of another one."""
        at = self._turnable[self._n_variants % len(self._turnable)]
        self._n_variants += 1
        return write_lines(
            self.folder / "variant.txt", [*self.lines[:at], _turned(self.lines[at]), *self.lines[at + 1 :]]
        )

    @cached_property
    def _turnable(self) -> list[int]:
        return [at for at, line in enumerate(self.lines) if _turned(line) != line]

    @cached_property
    def text(self) -> Path:
        """The training text as it is."""
        return write_lines(self.folder / "text.txt", self.lines)

    @cached_property
    def short(self) -> Path:
        """A line that serves as validation and test text where only the training text matters."""
        return write_lines(self.folder / "short.txt", self.lines[:1])

    @cached_property
    def n_tokens(self) -> int:
        """Words of the training text, and an end of each line."""
        return sum(len(line.split()) + 1 for line in self.lines)

    @cached_property
    def vocabulary(self) -> list[str]:
        """The words that can come next: those of the training text, its end of line, and the unknown one."""
        return sorted({word for line in self.lines for word in line.split()} | {EOS, UNK})

    def corpus(self, text: Path) -> Corpus:
        """A text file, read and encoded for training."""
        return lmzoo.load_corpus(train=text, valid=self.short, test=self.short, tokens="word")

    def _saved(self, order: int, form: str = "exact") -> Path:
        """A model of the training text in one of lmzoo's own forms, a name in `SAVED_FORMS`."""
        path = self.folder / f"model.{order}.{form.replace(' ', '-')}.lm"
        return lmzoo.save(SAVED_FORMS[form](self._trained(order)), path)

    def _arpa(self, order: int) -> Path:
        """KenLM's model of the training text."""
        return kenlm_binaries.lmplz(self.text, order, self.folder / f"model.{order}.arpa")

    def _binary(self, order: int, structure: Sequence[str] = kenlm_binaries.PROBING) -> Path:
        """KenLM's model in its own format; probing is its fastest."""
        binary = self.folder / f"model.{order}.{'-'.join(structure)}.bin"
        return kenlm_binaries.build_binary(self.arpa(order), structure, binary)


def encoded(model: Any, text: Path) -> Split:
    """A text file under the vocabulary of a model, a document per line."""
    segments, _ = cut_segments(read_text(text), "line", named_normalizer(model.vocab.normalizer))
    return encode_split(text.name, segments, model.vocab, "line")


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _turned(line: str) -> str:
    return " ".join(reversed(line.split()))


def _penn_treebank() -> tuple[str, list[str], list[str]]:
    texts = SOURCES["ptb"].texts()
    train, test = (
        [" ".join(line.split()).replace("<unk>", _UNK_SPELLED) for line in texts[part].splitlines() if line.strip()]
        for part in ("train", "test")
    )
    return "Penn Treebank words", train, test


def _made_up() -> tuple[str, list[str], list[str]]:
    lines = zipf_text(_SYNTHETIC_WORDS, seed=0).lines()
    return "made-up words", lines[:-_HELD_OUT_LINES], lines[-_HELD_OUT_LINES:]
