"""Penn Treebank words against KenLM: perplexities of orders 2 to 6 as a Markdown table.

    LMZOO_DATA=… python benchmarks/perplexity_ptb.py

`files`: the corpus as it is; `spelled`: `<unk>` written as an ordinary word, which is how KenLM's figures were made.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import lmzoo
from lmzoo.corpus import Corpus, corpus_from_texts
from lmzoo.ngram.discounts import DiscountWarning
from lmzoo.sources import SOURCES

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "ptb.perplexity.kenlm.json"


def spelled() -> Corpus:
    texts = {part: text.replace("<unk>", "UNKTOK") for part, text in SOURCES["ptb"].texts().items()}
    return corpus_from_texts(texts, tokens="word")


def main() -> None:
    warnings.simplefilter("error", DiscountWarning)
    kenlm = json.loads(GOLDEN.read_text(encoding="utf-8"))["line"]
    corpora = {"files": lmzoo.load_corpus("ptb"), "spelled": spelled()}
    print("| text | discounts | order | validation | test | against KenLM |")
    print("|---|---|---:|---:|---:|---|")
    for text, discounts in (("files", "exact"), ("spelled", "exact"), ("spelled", "kenlm")):
        corpus = corpora[text]
        for order, wanted in kenlm.items():
            model = lmzoo.train(f"ngram:order={order},smoothing=mkn,discounts={discounts}", corpus)
            got = [lmzoo.evaluate(model, split).perplexity for split in (corpus.valid, corpus.test)]
            away = ", ".join(f"{g / w - 1:+.1e}" for g, w in zip(got, wanted, strict=True))
            print(f"| {text} | {discounts} | {order} | {got[0]:.4f} | {got[1]:.4f} | {away} |")


if __name__ == "__main__":
    main()
