"""ARPA files: the exchange format of n-gram toolkits.  Strict in what is written, lenient in what is read.

Logarithms in the file are base 10; nowhere else in lmzoo are they.  A token that holds white space or a control
character (the space of a character model, a no-break space inside a word) is written with that character as `\\u{20}`.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from lmzoo.errors import StorageError
from lmzoo.files import whole_file
from lmzoo.interface import LanguageModel
from lmzoo.ngram.arpa_file import LOG10_ZERO, ArpaError, ArpaFile, ArpaWarning, packed, with_histories
from lmzoo.ngram.counts import Keys
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.prune import largest_sum
from lmzoo.ngram.smoothing import Table
from lmzoo.ngram.trie import from_keys
from lmzoo.normalizers import named_normalizer
from lmzoo.tokenizers import restored_tokenizer

Floats = npt.NDArray[np.float64]

__all__ = ["ArpaError", "ArpaWarning", "read_arpa", "write_arpa"]

_LN10 = math.log(10)
# what figures of a few digits may add up to beyond 1
_MOST_EXCESS = 1e-2


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

    A tokenizer that is learned from text is given by the path of its tokenizer.json.

    Made up for, with an `ArpaWarning`: a missing `<unk>` (a floor of 10^-100), a count that differs from the header's,
    a history that is not listed, a highest order with back-offs (the file was cut down).  An absent back-off is 0.
    Raises `ArpaError` with the line at fault.
    """
    restored_tokenizer(tokenizer, None)
    named_normalizer(normalizer)
    file = ArpaFile(Path(path))
    vocab, sections = file.read(tokenizer, normalizer)
    found = packed(sections, vocab, file)
    if found is None:
        sections, n_added = with_histories(sections)
        file.warn(f"lists n-grams without their histories; {n_added} were added with what they back off to")
        found = packed(sections, vocab, file)
        assert found is not None
    model = NgramModel(vocab, from_keys(*found, len(vocab)), {"smoothing": "arpa"})
    largest = largest_sum(model)
    if largest <= 1 + _MOST_EXCESS:
        return model
    file.warn(f"is no distribution: what may follow some history sums to {largest:.4g}; it has no perplexity")
    return NgramModel(vocab, model.trie, {**model.details, "exceeds_1": largest})


def _escape(token: str) -> str:
    """White space, control characters, and what reads like an escape, as `\\u{hex}`."""
    token = token.replace("\\u{", "\\u{5c}u{")
    return "".join(f"\\u{{{ord(c):x}}}" if c.isspace() or ord(c) < 32 or ord(c) == 127 else c for c in token)
