"""Reading ARPA files: from lines to sections of ids and figures, and from these to packed keys.

Lines are read one after the other and kept as numbers, so that a file takes little more memory than its model.
"""

from __future__ import annotations

import gzip
import math
import re
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lmzoo.errors import StorageError
from lmzoo.markers import BOS, EOS, MARKERS, UNK
from lmzoo.ngram.config import MAX_ORDER
from lmzoo.ngram.counts import Keys
from lmzoo.ngram.smoothing import Table
from lmzoo.reading import decode_blocks
from lmzoo.tokenizers import restored_tokenizer
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]

# what is impossible, as other toolkits write it; they read anything at or below it as log 0
LOG10_ZERO = -99.0
# a file without <unk> gives its unknown words this much, as KenLM does unless told otherwise
LOG10_UNKNOWN = -100.0

_LN10 = math.log(10)
# of so many digits at most: longer ones are no counts
_COUNT = re.compile(r"ngram\s+(\d{1,18})\s*=\s*(\d{1,18})\s*")
_SECTION = re.compile(r"\\(\d{1,18})-grams:\s*")
_ESCAPED = re.compile(r"\\u\{([0-9a-f]+)\}")
# beyond it no double is a power of 10
_MOST_LOG10 = 300.0
_GZIP = b"\x1f\x8b"
_CHUNK_BYTES = 1 << 22
# entries turned into numbers together
_PIECE = 1 << 16
# how much of a line an error shows
_SHOWN = 80


class ArpaWarning(UserWarning):
    """An ARPA file lacks something that was made up for."""


class ArpaError(StorageError):
    """A file that is no ARPA file, or a damaged one; the message names the line."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Section:
    """The n-grams of one order as the file lists them: ids, ln p, ln back-off (0 where absent), and their lines."""

    ids_GxK: Ids
    logp_G: Floats
    backoff_G: Floats
    lines_G: Ids

    def __len__(self) -> int:
        return len(self.ids_GxK)

    @classmethod
    def empty(cls, order: int) -> Section:
        """No n-grams of an order."""
        none = np.zeros(0)
        return cls(ids_GxK=np.zeros((0, order), np.int64), logp_G=none, backoff_G=none, lines_G=none.astype(np.int64))


class ArpaFile:
    """A file and where its reader stands; errors and warnings name file and line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = self._read_lines()
        self._at = 0
        self._held: str | None = None

    def warn(self, message: str) -> None:
        warnings.warn(f"{self._path.name}: {message}", ArpaWarning, stacklevel=3)

    def fail(self, message: str, line: int | None = None) -> ArpaError:
        return ArpaError(f"{self._path}, line {self._at if line is None else line}: {message}")

    def read(self, tokenizer: str, normalizer: str) -> tuple[Vocab, list[Section]]:
        """The vocabulary, in the order of the 1-grams, and the n-grams of each order."""
        declared = self._header()
        names = _Names()
        first = self._section(1, names, is_highest=len(declared) == 1)
        vocab = self._vocab_of(names, tokenizer, normalizer)
        sections = [self._singles(first, names, vocab)]
        names.close(vocab)
        orders = range(2, len(declared) + 1)
        sections += [self._section(order, names, is_highest=order == len(declared)) for order in orders]
        if self._next() != "\\end\\":
            raise self.fail("\\end\\ is wanted; the file may be cut short")
        for order, (n_declared, n_read) in enumerate(
            zip(declared, [len(first), *map(len, sections[1:])], strict=True), start=1
        ):
            if n_declared != n_read:
                self.warn(f"declares {n_declared} n-grams of order {order}, {n_read} were read")
        return vocab, sections

    def _read_lines(self) -> Iterator[str]:
        rest = ""
        for block in decode_blocks(self._chunks(), str(self._path)):
            *lines, rest = (rest + block).split("\n")
            yield from lines
        yield rest

    def _chunks(self) -> Iterator[bytes]:
        try:
            with self._path.open("rb") as file:
                is_compressed = file.peek(2)[:2] == _GZIP
            with gzip.open(self._path) if is_compressed else self._path.open("rb") as source:
                while chunk := source.read(_CHUNK_BYTES):
                    yield chunk
        except EOFError as error:
            raise ArpaError(f"{self._path} is cut short: its gzip data has no end; get the whole file") from error
        except (OSError, ValueError, zlib.error) as error:
            raise ArpaError(f"cannot read {self._path}: {error}") from error

    def _next(self) -> str | None:
        """The next line that is not blank, or None at the end."""
        if self._held is not None:
            line, self._held = self._held, None
            return line
        for raw in self._lines:
            self._at += 1
            line = raw.strip(" \t")
            if line:
                return line
        return None

    def _piece(self) -> list[tuple[str, int]]:
        """The next entries of a section and the numbers of their lines; none at its end."""
        piece: list[tuple[str, int]] = []
        while len(piece) < _PIECE and (line := self._next()) is not None:
            if line.startswith("\\"):
                self._held = line
                break
            piece.append((line, self._at))
        return piece

    def _header(self) -> list[int]:
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
        if len(declared) > MAX_ORDER:
            raise self.fail(f"its order is {len(declared)}, {MAX_ORDER} is the highest that is read")
        self._held = line
        return declared

    def _section(self, order: int, names: _Names, *, is_highest: bool) -> Section:
        """The n-grams of one order."""
        line = self._next()
        found = _SECTION.fullmatch(line) if line else None
        if not found or int(found[1]) != order:
            raise self.fail(f"\\{order}-grams: is wanted, got {line!r}; the file may be cut short")
        entries = _Entries(order, names, self)
        while piece := self._piece():
            entries.add(*zip(*piece, strict=True))
        section = entries.section()
        if is_highest and section.backoff_G.any():
            self.warn(f"its highest order {order} has back-offs: it was cut down from a longer model")
        return section

    def _vocab_of(self, names: _Names, tokenizer: str, normalizer: str) -> Vocab:
        words = names.tokens
        if UNK not in words:
            self.warn(f"has no {UNK}; unknown words get probability 10^{LOG10_UNKNOWN:g}")
        if restored_tokenizer(tokenizer, None).is_single and (
            long := next((w for w in words if len(w) != 1 and w not in MARKERS), None)
        ):
            raise self.fail(f"{long!r} is no single character, so the tokenizer is not {tokenizer!r}; take 'word'")
        reserved = [UNK, BOS] + [EOS] * (EOS in words)
        tokens = (*reserved, *(w for w in words if w not in reserved))
        return Vocab(
            tokens=tokens, counts_V=np.zeros(len(tokens), np.int64), normalizer=normalizer, tokenizer=tokenizer
        )

    def _singles(self, first: Section, names: _Names, vocab: Vocab) -> Section:
        """The 1-grams by id of the vocabulary, with those that every vocabulary has."""
        ids_K = np.array([vocab.token_to_id[token] for token in names.tokens], np.int64)
        ids_G = ids_K[first.ids_GxK[:, 0]]
        listed = Section(ids_GxK=ids_G[:, None], logp_G=first.logp_G, backoff_G=first.backoff_G, lines_G=first.lines_G)
        _require_once(listed, ids_G, np.argsort(ids_G, kind="stable"), vocab, self)
        missing = np.setdiff1d(np.arange(len(vocab)), ids_G)
        logp = np.where(missing == vocab.unk_id, LOG10_UNKNOWN * _LN10, -math.inf)
        return _extended(listed, {(i,): (p, 0.0) for i, p in zip(missing.tolist(), logp.tolist(), strict=True)})


class _Names(dict[str, int]):
    """Numbers of tokens as they are written in the file: of 1-grams in turn, afterwards ids of the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: dict[str, int] = {}
        self._is_closed = False

    def close(self, vocab: Vocab) -> None:
        """All tokens are known now."""
        self.tokens = dict(vocab.token_to_id)
        self.clear()
        self._is_closed = True

    def __missing__(self, written: str) -> int:
        try:
            token = _unescape(written)
        except (ValueError, OverflowError) as error:
            raise ArpaError("no character has that number") from error
        if self._is_closed and token not in self.tokens:
            raise ArpaError(f"{token!r} stands in an n-gram but not among the 1-grams")
        number = self.tokens.setdefault(token, len(self.tokens))
        self[written] = number
        return number


class _Entries:
    """Lines of one section, turned into numbers piece by piece."""

    def __init__(self, order: int, names: _Names, file: ArpaFile) -> None:
        self._order = order
        self._names = names
        self._file = file
        self._pieces = [Section.empty(order)]

    def add(self, lines: Sequence[str], numbers: Sequence[int]) -> None:
        """A piece at once where all of its lines have the same fields, else, or to find a fault, line by line."""
        try:
            whole = self._even(lines, numbers)
        except (ArpaError, ValueError):
            whole = None
        self._pieces += (
            [self._entry(*entry) for entry in zip(lines, numbers, strict=True)] if whole is None else [whole]
        )

    def section(self) -> Section:
        """What was added."""
        return Section(
            ids_GxK=np.concatenate([piece.ids_GxK for piece in self._pieces]),
            logp_G=np.concatenate([piece.logp_G for piece in self._pieces]),
            backoff_G=np.concatenate([piece.backoff_G for piece in self._pieces]),
            lines_G=np.concatenate([piece.lines_G for piece in self._pieces]),
        )

    def _even(self, lines: Sequence[str], numbers: Sequence[int]) -> Section | None:
        """Lines that all have a back-off or all have none, with single blanks or tabs between fields; else None."""
        # no field is a line feed, so if one stands wherever a line must end, every line has its number of fields
        fields = (" \n ".join(lines) + " \n").replace("\t", " ").split(" ")
        width = len(fields) // len(lines)
        if width not in (self._order + 2, self._order + 3) or fields[width - 1 :: width] != ["\n"] * len(lines):
            return None
        columns = [fields[place::width] for place in range(width - 1)]
        log10_b = columns.pop() if width == self._order + 3 else ["0"] * len(lines)
        return self._numbered(columns[0], columns[1:], log10_b, numbers)

    def _entry(self, line: str, number: int) -> Section:
        fields = [field for field in line.replace("\t", " ").split(" ") if field]
        if len(fields) not in (self._order + 1, self._order + 2):
            wanted = f"{self._order + 1} or {self._order + 2} fields are wanted"
            raise self._file.fail(f"{wanted}, got {len(fields)}: {line[:_SHOWN]!r}", number)
        log10_b = fields.pop() if len(fields) == self._order + 2 else "0"
        try:
            return self._numbered(fields[:1], [[word] for word in fields[1:]], [log10_b], [number])
        except ValueError as error:
            raise self._file.fail(f"not a number in {line[:_SHOWN]!r}", number) from error
        except ArpaError as error:
            raise self._file.fail(f"{error}: {line[:_SHOWN]!r}", number) from error

    def _numbered(
        self, log10_p: Sequence[str], words: Sequence[Sequence[str]], log10_b: Sequence[str], lines: Sequence[int]
    ) -> Section:
        """Raises `ValueError` for what is no number, `ArpaError` for what is wrong with some number or word."""
        log10_p_G, log10_b_G = (np.array(list(map(float, figures))) for figures in (log10_p, log10_b))
        ids_GxK = np.stack([np.fromiter(map(self._names.__getitem__, column), np.int64) for column in words], axis=1)
        # as other toolkits, which have no logarithm of 0 for a back-off either
        log10_b_G = np.where(np.isneginf(log10_b_G), LOG10_ZERO, log10_b_G)
        if np.isnan(log10_p_G).any() or not (np.abs(log10_b_G) <= _MOST_LOG10).all():
            raise ArpaError("not a finite number")
        is_bos_G = (ids_GxK[:, 0] == self._names.tokens.get(BOS, -1)) & (self._order == 1)
        # for <s>, which is never predicted, toolkits write 0 or -99
        if ((log10_p_G > 1e-6) & ~is_bos_G).any():
            raise ArpaError("a log-probability above 0")
        is_never_G = (log10_p_G <= LOG10_ZERO) | is_bos_G
        return Section(
            ids_GxK=ids_GxK,
            logp_G=np.where(is_never_G, -math.inf, np.minimum(log10_p_G, 0.0) * _LN10),
            backoff_G=log10_b_G * _LN10,
            lines_G=np.array(lines, np.int64),
        )


def packed(sections: Sequence[Section], vocab: Vocab, file: ArpaFile) -> tuple[list[Keys], list[Table]] | None:
    """Sorted keys and tables of all orders, or None where some n-gram's history is not listed.

    Raises `ArpaError` for an n-gram that is listed twice.
    """
    keys: list[Keys] = []
    tables: list[Table] = []
    for section in sections:
        history_G = section.ids_GxK[:, 0] if keys else np.zeros(len(section), np.int64)
        for known_G, token_G in zip(keys[1:], section.ids_GxK[:, 1:-1].T, strict=True):
            wanted_G = history_G * len(vocab) + token_G
            history_G = np.minimum(np.searchsorted(known_G, wanted_G), max(len(known_G) - 1, 0))
            if len(wanted_G) and (not len(known_G) or (known_G[history_G] != wanted_G).any()):
                return None
        keys_G = history_G * len(vocab) + section.ids_GxK[:, -1]
        by_key = np.argsort(keys_G, kind="stable")
        _require_once(section, keys_G, by_key, vocab, file)
        keys.append(keys_G[by_key])
        tables.append(Table(logp_G=section.logp_G[by_key], backoff_G=section.backoff_G[by_key]))
    tables[-1] = Table(logp_G=tables[-1].logp_G, backoff_G=np.zeros(0))
    return keys, tables


def _require_once(section: Section, keys_G: Ids, by_key: Ids, vocab: Vocab, file: ArpaFile) -> None:
    again = np.flatnonzero(np.diff(keys_G[by_key]) == 0)
    if len(again):
        # the sort keeps the order of the file, so the second is the later line
        second = int(by_key[again[0] + 1])
        words = " ".join(vocab.tokens[i] for i in section.ids_GxK[second].tolist())
        raise file.fail(f"{words!r} is listed twice", int(section.lines_G[second]))


def with_histories(sections: Sequence[Section]) -> tuple[list[Section], int]:
    """The sections with every history of what they list, and how many were added.

    What was not listed has the probability that it backs off to.  Slow, since few files need it.
    """
    nodes = [_as_dict(section) for section in sections]
    added: list[dict[_Words, tuple[float, float]]] = [{} for _ in nodes]
    for order in range(len(nodes) - 1, 1, -1):
        for words in {words[:-1] for words in nodes[order]} - nodes[order - 1].keys():
            added[order - 1][words] = nodes[order - 1][words] = (_backed_off(words, nodes), 0.0)
    return [_extended(*pair) for pair in zip(sections, added, strict=True)], sum(map(len, added))


_Words = tuple[int, ...]


def _as_dict(section: Section) -> dict[_Words, tuple[float, float]]:
    figures = zip(section.logp_G.tolist(), section.backoff_G.tolist(), strict=True)
    return dict(zip(map(tuple, section.ids_GxK.tolist()), figures, strict=True))


def _backed_off(words: _Words, nodes: Sequence[dict[_Words, tuple[float, float]]]) -> float:
    """ln p of an n-gram that is not listed: the back-off of its history and ln p of the shorter one."""
    listed = nodes[len(words) - 1].get(words)
    if listed is not None:
        return listed[0]
    history = nodes[len(words) - 2].get(words[:-1])
    return (history[1] if history else 0.0) + _backed_off(words[1:], nodes)


def _extended(section: Section, added: dict[_Words, tuple[float, float]]) -> Section:
    if not added:
        return section
    logp, backoff = (np.array(column) for column in zip(*added.values(), strict=True))
    return Section(
        ids_GxK=np.concatenate((section.ids_GxK, np.array(list(added)))),
        logp_G=np.concatenate((section.logp_G, logp)),
        backoff_G=np.concatenate((section.backoff_G, backoff)),
        lines_G=np.concatenate((section.lines_G, np.zeros(len(added), np.int64))),
    )


def _unescape(token: str) -> str:
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), token)
    text.encode()  # half a surrogate pair is no character either
    return text
