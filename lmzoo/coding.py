"""What a compressor codes, and how its code length becomes a Tally.

A compressor sees text and no tokens: the normalised text of a split, each document with its line end where the policy
has one.  Its code length is that of every character, so that nothing is charged for spelling, and bits per character
or byte exist whatever the tokenizer drops.  There is a perplexity only where the nats are those of the tokens and no
more: where the tokens give back the text and none is out of vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lmzoo.corpus import Split
from lmzoo.normalizers import named_normalizer
from lmzoo.segments import Segments
from lmzoo.tally import Tally
from lmzoo.tokens import normalized
from lmzoo.vocab import Vocab


def coded_bytes(split: Split) -> bytes:
    """The UTF-8 bytes that stand for a split; of a document that was cut, those of the tokens that are left."""
    if split.n_tokens == split.encoded_with(split.vocab).n_tokens:
        return _as_bytes(split)
    last = len(split) - 1
    # running text is one document of many segments
    before = b"" if split.documents == "running" else _bytes_of(split, last)
    return before + _written(split.vocab, split.ids_N[split.starts_D1[last] :].tolist())


def _written(vocab: Vocab, ids: Sequence[int]) -> bytes:
    """The bytes of tokens; the last of them may be a part of a character, which no text could hold."""
    if vocab.cutter.by_words:
        return vocab.decode(ids).encode("utf-8", "surrogatepass")
    return b"".join(b"\n" if i == vocab.eos_id else vocab.cutter.spelled(vocab.tokens[i]) for i in ids)


def _as_bytes(split: Split) -> bytes:
    return _bytes_of(split, len(split.segments))


def _bytes_of(split: Split, n_segments: int) -> bytes:
    """Those of the first segments, normalised."""
    first = split.segments[:n_segments]
    held = first if isinstance(first, Segments) else Segments.of(first)
    texts = normalized(held, named_normalizer(split.vocab.normalizer))
    if split.documents == "file":
        return b"".join(text.encode("utf-8", "surrogatepass") for text in texts)
    return bytes(texts.view)


def code_tally(nll_nats: float, split: Split) -> Tally:
    """The Tally of a split whose text took so many nats to code.

    No text is coded in 0 nats or less: a difference of two lengths in whole bytes that says so tells nothing, and there
    are no nats.
    """
    is_known = nll_nats > 0
    return Tally(
        nll_nats=nll_nats if is_known else math.nan,
        n_tokens=split.n_tokens,
        n_chars=int(split.chars_D.sum()),
        n_bytes=int(split.bytes_D.sum()),
        n_oov=split.n_oov,
        # what the code spends on them cannot be told from the rest
        oov_nll_nats=math.nan if split.n_oov else 0.0,
        unit=split.vocab.fingerprint,
        tokens_known=split.lossless and not split.n_oov,
        code_known=is_known,
        bytes_known=named_normalizer(split.vocab.normalizer).lossless,
    )
