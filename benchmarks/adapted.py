"""Other projects' models through the adapters, against their own figures: the table of docs/peers.md.

    LMZOO_DATA=… KENLM_BIN=… python -m benchmarks.adapted

KenLM estimates orders 2 to 6 of Penn Treebank, its `<unk>` written as a word, which is how KenLM's figures were made.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import lmzoo
from benchmarks import kenlm_binaries, kenlm_module
from lmzoo.corpus import Corpus
from lmzoo.markers import UNK

_GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "ptb.perplexity.kenlm.json"
# KenLM takes no <unk> in a text
_UNK_SPELLED = "UNKTOK"


def missing() -> str | None:
    """Why the table cannot be made here, or None."""
    return kenlm_module.missing() or kenlm_binaries.missing()


def lines(folder: Path, corpus: Corpus, orders: tuple[int, ...]) -> Iterator[str]:
    """The table, a line as soon as it is known; `corpus` has words, and marks its unknown ones."""
    wanted = json.loads(_GOLDEN.read_text(encoding="utf-8"))["line"]
    text = folder / "train.txt"
    spelled = "".join(line.replace(UNK, _UNK_SPELLED) + "\n" for line in corpus.train.segments)
    text.write_text(spelled, encoding="utf-8")
    yield "| order | validation | KenLM's own | test | KenLM's own |"
    yield "|---:|---:|---:|---:|---:|"
    for order in orders:
        arpa = kenlm_binaries.lmplz(text, order, folder / f"{order}.arpa")
        model = lmzoo.read_model(f'kenlm:"{arpa}",unk={_UNK_SPELLED}')
        parts = [split.encoded_with(model.vocab) for split in (corpus.valid, corpus.test)]
        valid, test = (lmzoo.evaluate(model, part).perplexity for part in parts)
        yield f"| {order} | {valid:.4f} | {wanted[str(order)][0]} | {test:.4f} | {wanted[str(order)][1]} |"


def main() -> int:
    reason = missing()
    if reason is not None:
        print(reason, file=sys.stderr)
        return 2
    corpus = lmzoo.load_corpus("ptb")
    with tempfile.TemporaryDirectory() as folder:
        for line in lines(Path(folder), corpus, (2, 3, 4, 5, 6)):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
