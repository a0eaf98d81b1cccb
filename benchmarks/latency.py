"""How long a recurrent network takes to read one token and answer the next one's distribution, beside plain torch.

    OMP_NUM_THREADS=1 python -m benchmarks.latency
    OMP_NUM_THREADS=2 python -m benchmarks.latency

The textbook's networks (256 units, one text, 28 predictable symbols and `<s>`), all sides with the same weights and on
the same random tokens, in blocks that take turns, so that whatever slows the machine slows all.  Plain torch is a
script without lmzoo: a layer, a linear layer, log-softmax, under inference mode, the result on the host.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from lmzoo import compiled
from lmzoo.budget import Stopwatch
from lmzoo.corpus import corpus_from_texts
from lmzoo.interface import Arrays
from lmzoo.neural.config import RecurrentConfig
from lmzoo.neural.models import RecurrentModel
from lmzoo.neural.network import initialize
from lmzoo.vocab import Vocab

CELLS = ("rnn", "gru", "lstm")
# the side that the others are compared with
PLAIN = "plain torch"
_ROUNDS = 7
_TOKENS_A_ROUND = 1_000
_LETTERS = "abcdefghijklmnopqrstuvwxyz "
# of one ln p: what two kernels may differ by in float32
TOLERANCE = 1e-4

# reads a token and gives ln p of the next one, (V,)
Reader = Callable[[int], npt.NDArray[np.float32]]


def letters() -> Vocab:
    """The vocabulary of the textbook: 26 letters, the space and `<unk>`, and `<s>` as context."""
    texts = dict.fromkeys(("train", "valid", "test"), _LETTERS)
    return corpus_from_texts(texts, tokens="char", normalize="letters").vocab


def readers(cell: str, vocab: Vocab, hidden: int = 256) -> dict[str, Reader]:
    """All sides by name, each in the state after `<s>`."""
    config = RecurrentConfig(cell=cell, recipe="textbook", hidden=hidden)  # type: ignore[arg-type]
    drawn = RecurrentModel(vocab, config)
    initialize(drawn.network, torch.Generator().manual_seed(0))
    options, arrays = drawn.to_parts()

    def side(kernel: str, compiled_path: str = "0") -> Reader:
        model = RecurrentModel.from_parts(vocab, {**options, "kernel": kernel}, arrays)
        # a model decides at its first answer
        with mock.patch.dict(os.environ, {compiled.VARIABLE: compiled_path}):
            return _through_lmzoo(model)

    sides = {} if importlib.util.find_spec("numba") is None else {"lmzoo, compiled": side("scratch", "1")}
    sides |= {"lmzoo, numpy": side("scratch"), "lmzoo, torch's layer": side("library")}
    return {**sides, PLAIN: _through_torch(cell, vocab.bos_id, arrays)}


def _through_lmzoo(model: RecurrentModel) -> Reader:
    state = model.initial_state()

    def read(token: int) -> npt.NDArray[np.float32]:
        nonlocal state
        _, state = model.logprobs(np.array([[token]]), state)
        logprobs_V: npt.NDArray[np.float32] = model.next_logprobs(state)[0]
        return logprobs_V

    return read


def _through_torch(cell: str, bos_id: int, arrays: Arrays) -> Reader:
    n_symbols, hidden = arrays["output.weight"].shape
    layer = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[cell](n_symbols, hidden)
    output = nn.Linear(hidden, n_symbols)
    weights = {f"{name}_l0": arrays[f"layer0.{name}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    layer.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()})
    bias_V = arrays["output.bias"].copy()
    bias_V[bos_id] = -np.inf
    output.load_state_dict(
        {"weight": torch.from_numpy(arrays["output.weight"].copy()), "bias": torch.from_numpy(bias_V)}
    )
    one_hot_Vx1x1xV = torch.eye(n_symbols)[:, None, None]
    state: Any = None

    @torch.inference_mode()
    def read(token: int) -> npt.NDArray[np.float32]:
        nonlocal state
        hidden_1x1xH, state = layer(one_hot_Vx1x1xV[token], state)
        logprobs_V: npt.NDArray[np.float32] = torch.log_softmax(output(hidden_1x1xH[0, 0]), dim=-1).numpy()
        return logprobs_V

    read(bos_id)
    return read


def check_agreement(sides: Mapping[str, Reader], tokens_N: Sequence[int]) -> None:
    """Raise `RuntimeError` where a side answers otherwise than plain torch: it would not have done the same work."""
    for token in tokens_N:
        answers = {name: np.exp(read(token)) for name, read in sides.items()}
        for name, answer_V in answers.items():
            miss = float(np.abs(answer_V - answers[PLAIN]).max())
            if not miss <= TOLERANCE:
                raise RuntimeError(f"{name} is {miss:.1g} off {PLAIN}, at most {TOLERANCE:g} is rounding")


def seconds(
    sides: Mapping[str, Reader], tokens_RxN: npt.NDArray[np.int64], new_watch: Callable[[], Stopwatch] = Stopwatch
) -> dict[str, npt.NDArray[np.float64]]:
    """Seconds of each token by side, (R - 1, N): sides take turns in every round, and the first one is not counted."""
    taken_RxN = {name: np.empty(tokens_RxN.shape) for name in sides}
    for number, tokens_N in enumerate(tokens_RxN.tolist()):
        for name, read in sides.items():
            taken_RxN[name][number] = [_seconds(read, token, new_watch()) for token in tokens_N]
    return {name: taken[1:] for name, taken in taken_RxN.items()}


def _seconds(read: Reader, token: int, watch: Stopwatch) -> float:
    with watch.running():
        read(token)
    return watch.elapsed_s


def rows(cell: str, taken_RxN: Mapping[str, npt.NDArray[np.float64]]) -> Iterator[str]:
    """Rows of the table: median and 99th percentile, and how many times those of plain torch in the same round."""
    for name, ours_RxN in taken_RxN.items():
        cells = [cell, name]
        for percent in (50, 99):
            ours_R, theirs_R = (np.percentile(s_RxN, percent, axis=1) for s_RxN in (ours_RxN, taken_RxN[PLAIN]))
            ratios_R = theirs_R / ours_R
            spread = f"{np.median(ratios_R):.2f} ({ratios_R.min():.2f} to {ratios_R.max():.2f})"
            cells += [f"{np.median(ours_R) * 1e6:.1f}", "" if name == PLAIN else spread]
        yield f"| {' | '.join(cells)} |"


def lines(rounds: int, n_tokens: int) -> Iterator[str]:
    """The whole table, a row as soon as it is known."""
    vocab = letters()
    yield f"{torch.get_num_threads()} thread(s), {rounds} rounds of {n_tokens:,} tokens.\n"
    yield "| cell | side | median, µs | times faster (least to most) | 99th percentile, µs | times faster |"
    yield "|---|---|---:|---:|---:|---:|"
    tokens_RxN = np.random.default_rng(0).integers(len(vocab) - 1, size=(rounds + 1, n_tokens))
    tokens_RxN += tokens_RxN >= vocab.bos_id
    for cell in CELLS:
        sides = readers(cell, vocab)
        check_agreement(sides, tokens_RxN[0].tolist())
        yield from rows(cell, seconds(sides, tokens_RxN))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="blocks of each side (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=_TOKENS_A_ROUND, help="tokens of a block (default: %(default)s)")
    options = parser.parse_args()
    for name in ("rounds", "tokens"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    for line in lines(options.rounds, options.tokens):
        print(line, flush=True)


if __name__ == "__main__":
    main()
