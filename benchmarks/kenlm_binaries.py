"""KenLM's programs, found through an environment variable, and how they are called here."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

VARIABLE = "KENLM_BIN"
_PROGRAMS = ("lmplz", "build_binary", "query")
# what lmplz may take for sorting; its own default is most of the machine
_SORTING_MEMORY = "1G"

PROBING = ("probing",)
TRIE = ("trie",)
TRIE_8_BITS = ("-q", "8", "-b", "8", "trie")


def missing() -> str | None:
    """Why KenLM's programs cannot be run, and how to get them; None where they can."""
    folder = os.environ.get(VARIABLE)
    cure = (
        "build KenLM (https://github.com/kpu/kenlm: cmake -B build . && cmake --build build) "
        f"and set {VARIABLE} to its folder build/bin"
    )
    if not folder:
        return f"{VARIABLE} is not set; {cure}"
    lacking = [name for name in _PROGRAMS if not os.access(Path(folder, name), os.X_OK)]
    return f"{VARIABLE} names a folder without {', '.join(lacking)}; {cure}" if lacking else None


def lmplz_command(text: Path, order: int, arpa: Path) -> list[str]:
    """The command that estimates a model; on texts too small for its discounts it takes its fixed ones."""
    options = ("--order", str(order), "--memory", _SORTING_MEMORY, "--temp_prefix", f"{arpa.parent}/")
    return [_program("lmplz"), *options, "--discount_fallback", "--text", str(text), "--arpa", str(arpa)]


def lmplz(text: Path, order: int, arpa: Path) -> Path:
    """Estimate a model and write it as ARPA."""
    run(lmplz_command(text, order, arpa))
    return arpa


def build_binary(arpa: Path, structure: Sequence[str], binary: Path) -> Path:
    """Convert an ARPA file; `structure` is `PROBING`, `TRIE` or `TRIE_8_BITS`."""
    temporary = ("-T", f"{binary.parent}/") if "trie" in structure else ()
    run([_program("build_binary"), *temporary, *structure, str(arpa), str(binary)])
    return binary


def query(binary: Path, text: Path) -> float:
    """The perplexity of a text, `</s>` and unknown words included."""
    with text.open("rb") as lines:
        said = run([_program("query"), "-v", "summary", str(binary)], lines)
    found = re.search(r"Perplexity including OOVs:\s+(\S+)", said)
    if found is None:
        raise RuntimeError(f"query names no perplexity: {said.strip()[-200:]}")
    return float(found[1])


def n_grams(arpa: Path) -> int:
    """How many n-grams an ARPA file holds, of all orders, by its header."""
    with arpa.open(encoding="utf-8") as file:
        header = itertools.takewhile(lambda line: not line.startswith("\\1-grams"), file)
        return sum(int(line.split("=")[1]) for line in header if line.startswith("ngram "))


def run(command: Sequence[str], stdin: IO[bytes] | None = None) -> str:
    """What a program writes to standard output; `RuntimeError` with the end of its complaint when it fails."""
    done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def _program(name: str) -> str:
    return str(Path(os.environ[VARIABLE], name))
