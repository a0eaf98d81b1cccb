"""ARPA files: the exchange format of n-gram toolkits.  Strict in what is written, lenient in what is read.

Logarithms in the file are base 10; nowhere else in lmzoo are they.  A token that holds white space or a control
character (the space of a character model, a no-break space inside a word) is written with that character as `\\u{20}`.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from lmzoo.errors import StorageError
from lmzoo.files import whole_file
from lmzoo.interface import LanguageModel
from lmzoo.ngram.counts import Keys
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.smoothing import Table
from lmzoo.ngram.trie import from_keys
from lmzoo.text import BOS, EOS, MARKERS, TOKENIZERS, UNK, decode_bytes
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float64]

# what is impossible, as other toolkits write it; they read anything at or below it as log 0
LOG10_ZERO = -99.0
# a file without <unk> gives its unknown words this much, as KenLM does unless told otherwise
LOG10_UNKNOWN = -100.0

_LN10 = math.log(10)
_COUNT = re.compile(r"ngram\s+(\d+)\s*=\s*(\d+)\s*")
_SECTION = re.compile(r"\\(\d+)-grams:\s*")
_ESCAPED = re.compile(r"\\u\{([0-9a-f]+)\}")


class ArpaWarning(UserWarning):
    """An ARPA file lacks something that was made up for."""


class ArpaError(StorageError):
    """A file that is no ARPA file, or a damaged one; the message names the line."""


def write_arpa(model: LanguageModel[Any], path: str | Path) -> None:
    """Write a counting model's tables; `.gz` is compressed.  Seven digits are written: figures come back within 1e-6.

    Raises `StorageError` for a model of another kind, and for one that never backs off.
    """
    if isinstance(model, NgramModel) and not model.is_normalized:
        raise StorageError("an ARPA file holds probabilities; the scores of this model do not sum to 1")
    if not isinstance(model, NgramModel):
        raise StorageError(f"an ARPA file holds n-grams, got a {type(model).__name__}; keep lmzoo's own format")
    keys, tables = model.tables
    names = [_escape(token) for token in model.vocab.tokens]
    for order, table in enumerate(tables[:-1], start=1):
        if np.isneginf(table.backoff_G).any():
            raise StorageError(
                f"order {order} never backs off ({model.details.get('smoothing')}), which an ARPA file cannot say; "
                "export a smoothed model, such as smoothing=mkn"
            )
    path = Path(path)
    with whole_file(path) as binary, _as_text(binary, is_compressed=path.suffix == ".gz") as file:
        file.write("\\data\\\n")
        file.writelines(f"ngram {k}={len(keys_G)}\n" for k, keys_G in enumerate(keys, start=1))
        for order, lines in enumerate(_sections(names, keys, tables), start=1):
            file.write(f"\n\\{order}-grams:\n")
            file.writelines(lines)
        file.write("\n\\end\\\n")


@contextlib.contextmanager
def _as_text(binary: IO[bytes], *, is_compressed: bool) -> Iterator[io.TextIOWrapper]:
    """Text written to a binary file, which stays open."""
    inner = gzip.GzipFile(fileobj=binary, mode="wb", mtime=0) if is_compressed else binary
    file = io.TextIOWrapper(inner, encoding="utf-8", newline="\n")
    yield file
    file.flush()
    file.detach()
    if is_compressed:
        inner.close()


def _sections(names: Sequence[str], keys: Sequence[Keys], tables: Sequence[Table]) -> Iterator[Iterator[str]]:
    """The lines of each order's n-grams."""
    words = list(names)
    for order, (keys_G, table) in enumerate(zip(keys, tables, strict=True), start=1):
        if order > 1:
            histories, tokens = keys_G // len(names), keys_G % len(names)
            words = [f"{words[h]} {names[t]}" for h, t in zip(histories.tolist(), tokens.tolist(), strict=True)]
        yield _lines(words, table, is_highest=order == len(tables))


def _lines(words: Sequence[str], table: Table, *, is_highest: bool) -> Iterator[str]:
    log10_p = np.maximum(table.logp_G / _LN10, LOG10_ZERO).tolist()
    if is_highest:
        return (f"{p:.7g}\t{w}\n" for p, w in zip(log10_p, words, strict=True))
    log10_b = (table.backoff_G / _LN10).tolist()
    return (f"{p:.7g}\t{w}\t{b:.7g}\n" for p, w, b in zip(log10_p, words, log10_b, strict=True))


def read_arpa(path: str | Path, *, tokenizer: str = "word", normalizer: str = "none") -> NgramModel:
    """Read a model.  The file knows words only, so tokenizer and normaliser are the caller's to say.

    Made up for, with an `ArpaWarning`: a missing `<unk>` (a floor of 10^-100), a count that differs from the header's,
    a history that is not listed, a highest order with back-offs (the file was cut down).  An absent back-off is 0.
    Raises `ArpaError` with the line at fault.
    """
    lines = _Lines(Path(path))
    declared = lines.header()
    entries = [lines.section(order, highest=order == len(declared)) for order in range(1, len(declared) + 1)]
    lines.expect_end()
    for order, (n_declared, found) in enumerate(zip(declared, entries, strict=True), start=1):
        if n_declared != len(found):
            lines.warn(f"declares {n_declared} n-grams of order {order}, {len(found)} were read")
    vocab = _vocab_of(entries[0], lines, tokenizer, normalizer)
    keys, tables = _pack(entries, vocab, lines)
    return NgramModel(vocab, from_keys(keys, tables, len(vocab)), {"smoothing": "arpa"})


# words, ln p, ln back-off
Entry = tuple[tuple[str, ...], float, float]


class _Lines:
    """The lines of a file and where the reader stands; errors and warnings name file and line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            data = path.read_bytes()
            data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        except (OSError, EOFError) as error:
            raise ArpaError(f"cannot read {path}: {error}") from error
        self._lines = decode_bytes(data, str(path)).split("\n")
        self._at = 0

    def warn(self, message: str) -> None:
        warnings.warn(f"{self._path.name}: {message}", ArpaWarning, stacklevel=4)

    def fail(self, message: str) -> ArpaError:
        return ArpaError(f"{self._path}, line {self._at}: {message}")

    def _next(self) -> str | None:
        """The next line that is not blank, or None at the end."""
        while self._at < len(self._lines):
            self._at += 1
            line = self._lines[self._at - 1].strip(" \t")
            if line:
                return line
        return None

    def header(self) -> list[int]:
        """The number of n-grams that each order is said to have."""
        while (line := self._next()) != "\\data\\":
            if line is None:
                raise ArpaError(f"{self._path} is not an ARPA file: it has no line \\data\\")
        declared: list[int] = []
        while (line := self._next()) is not None and (count := _COUNT.fullmatch(line)):
            if int(count[1]) != len(declared) + 1:
                raise self.fail(f"order {len(declared) + 1} is wanted, got {line!r}")
            declared.append(int(count[2]))
        if not declared:
            raise self.fail("no line 'ngram 1=…' follows \\data\\")
        self._at -= line is not None
        return declared

    def section(self, order: int, *, highest: bool) -> list[Entry]:
        """The n-grams of one order."""
        line = self._next()
        found = _SECTION.fullmatch(line) if line else None
        if not found or int(found[1]) != order:
            raise self.fail(f"\\{order}-grams: is wanted, got {line!r}; the file may be cut short")
        entries: list[Entry] = []
        listed: set[tuple[str, ...]] = set()
        has_backoff = False
        while (line := self._next()) is not None and not line.startswith("\\"):
            entries.append(self._entry(line, order))
            if entries[-1][0] in listed:
                raise self.fail(f"{' '.join(entries[-1][0])!r} is listed twice")
            listed.add(entries[-1][0])
            has_backoff = has_backoff or entries[-1][2] != 0.0
        self._at -= line is not None
        if highest and has_backoff:
            self.warn(f"its highest order {order} has back-offs: it was cut down from a longer model")
        return entries

    def _entry(self, line: str, order: int) -> Entry:
        fields = re.split(r"[ \t]+", line)
        if len(fields) not in (order + 1, order + 2):
            raise self.fail(f"{order + 1} or {order + 2} fields are wanted, got {len(fields)}: {line[:80]!r}")
        try:
            log10_p = float(fields[0])
            log10_b = float(fields[order + 1]) if len(fields) == order + 2 else 0.0
        except ValueError as error:
            raise self.fail(f"not a number in {line[:80]!r}") from error
        if math.isnan(log10_p) or math.isnan(log10_b) or log10_b == math.inf:
            raise self.fail(f"not a finite number in {line[:80]!r}")
        try:
            words = tuple(map(_unescape, fields[1 : order + 1]))
        except (ValueError, OverflowError) as error:
            raise self.fail(f"no character has that number: {line[:80]!r}") from error
        # for <s>, which is never predicted, toolkits write 0 or -99
        if log10_p > 1e-6 and words != (BOS,):
            raise self.fail(f"a log-probability above 0: {line[:80]!r}")
        logp = -math.inf if log10_p <= LOG10_ZERO or words == (BOS,) else min(log10_p, 0.0) * _LN10
        return words, logp, log10_b * _LN10

    def expect_end(self) -> None:
        if self._next() != "\\end\\":
            raise self.fail("\\end\\ is wanted; the file may be cut short")


def _vocab_of(unigrams: Iterable[Entry], lines: _Lines, tokenizer: str, normalizer: str) -> Vocab:
    words = dict.fromkeys(words[0] for words, _, _ in unigrams)
    if UNK not in words:
        lines.warn(f"has no {UNK}; unknown words get probability 10^{LOG10_UNKNOWN:g}")
    if not TOKENIZERS[tokenizer].by_words and (
        long := next((w for w in words if len(w) != 1 and w not in MARKERS), None)
    ):
        raise lines.fail(f"{long!r} is no single character, so the tokenizer is not {tokenizer!r}; take 'word'")
    reserved = [UNK, BOS] + [EOS] * (EOS in words)
    tokens = (*reserved, *(w for w in words if w not in reserved))
    return Vocab(tokens=tokens, counts_V=np.zeros(len(tokens), np.int64), normalizer=normalizer, tokenizer=tokenizer)


def _pack(entries: Sequence[Sequence[Entry]], vocab: Vocab, lines: _Lines) -> tuple[list[Keys], list[Table]]:
    """Keys and tables of all orders; a history that is not listed is added with the probability it backs off to."""
    nodes: list[dict[tuple[str, ...], Entry]] = [{e[0]: e for e in order} for order in entries]
    for token in vocab.tokens[:2]:
        nodes[0].setdefault((token,), ((token,), LOG10_UNKNOWN * _LN10 if token == UNK else -math.inf, 0.0))
    n_added = 0
    for order in range(len(nodes) - 1, 1, -1):
        for words in {words[:-1] for words in nodes[order]} - nodes[order - 1].keys():
            nodes[order - 1][words] = (words, _backed_off(words, nodes), 0.0)
            n_added += 1
    if n_added:
        lines.warn(f"lists n-grams without their histories; {n_added} were added with what they back off to")
    unlisted = {w for order in nodes[1:] for words in order for w in words} - vocab.token_to_id.keys()
    if unlisted:
        raise lines.fail(f"{min(unlisted)!r} stands in an n-gram but not among the 1-grams")
    ids: dict[tuple[str, ...], int] = {(): 0}
    keys, tables = [], []
    for listed_by_words in nodes:
        keys_G = np.array([ids[w[:-1]] * len(vocab) + vocab.token_to_id[w[-1]] for w in listed_by_words], np.int64)
        by_key = np.argsort(keys_G)
        listed = list(listed_by_words.values())
        sorted_entries = [listed[i] for i in by_key.tolist()]
        keys.append(keys_G[by_key])
        ids = {words: i for i, (words, _, _) in enumerate(sorted_entries)}
        tables.append(_table([e[1] for e in sorted_entries], [e[2] for e in sorted_entries]))
    tables[-1] = Table(logp_G=tables[-1].logp_G, backoff_G=np.zeros(0))
    return keys, tables


def _table(logps: Any, backoffs: Any) -> Table:
    return Table(logp_G=np.array(logps, np.float64), backoff_G=np.array(backoffs, np.float64))


def _backed_off(words: tuple[str, ...], nodes: Sequence[dict[tuple[str, ...], Entry]]) -> float:
    """ln p of an n-gram that is not listed: the back-off of its history and ln p of the shorter one."""
    if words in nodes[len(words) - 1]:
        return nodes[len(words) - 1][words][1]
    if len(words) == 1:
        return nodes[0][(UNK,)][1]
    history = nodes[len(words) - 2].get(words[:-1])
    return (history[2] if history else 0.0) + _backed_off(words[1:], nodes)


def _escape(token: str) -> str:
    """White space, control characters, and what reads like an escape, as `\\u{hex}`."""
    token = token.replace("\\u{", "\\u{5c}u{")
    return "".join(f"\\u{{{ord(c):x}}}" if c.isspace() or ord(c) < 32 or ord(c) == 127 else c for c in token)


def _unescape(token: str) -> str:
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), token)
    text.encode()  # half a surrogate pair is no character either
    return text
