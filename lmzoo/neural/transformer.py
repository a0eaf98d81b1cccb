"""A causal transformer whose layers attend to a band of tokens: keys and values go on as a recurrent state does.

In every layer a token attends to itself and to the `span` tokens before it.  Their keys and values are kept from step
to step and from batch to batch, cut from the graph (Dai et al. 2019), so a long text costs each token once.  Keys are
kept as they were before they are rotated: scores depend on distances alone, wherever a text was cut.

Shapes: T new tokens, M tokens kept (at most `span`), S = M + T seen, A heads of E numbers, K layers, Kv = 2H.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from lmzoo.neural.config import TransformerConfig
from lmzoo.neural.network import NOTHING, Dropout, Dropouts, Network, dropped
from lmzoo.neural.residual import FeedForward, Linear, Norm

# Su et al. 2021, section 3.2.2: the slowest pair of numbers turns this many times slower than the fastest, nearly
_ROTARY_BASE = 10_000.0


class Attention(nn.Module):
    """What attention adds to its input, normalised first (Vaswani et al. 2017, section 3.2; Radford et al. 2019)."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = Norm(hidden)
        self.inner = Linear(hidden, 3 * hidden)
        self.outer = Linear(hidden, hidden)

    def forward(
        self, x_NxH: Tensor, kept_BxMxKv: Tensor, turns_Sx1xP: Tensor, is_seen_TxS: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What is added, and keys and values side by side of the tokens seen, (B, S, 2H); N = B x T."""
        n_columns, n_new, hidden = len(kept_BxMxKv), len(is_seen_TxS), x_NxH.shape[1]
        new_BxTxQkv = self.inner(self.norm(x_NxH)).reshape(n_columns, n_new, 3 * hidden)
        query_BxTxH, new_BxTxKv = new_BxTxQkv.split_with_sizes((hidden, 2 * hidden), dim=2)
        seen_BxSxKv = torch.cat((kept_BxMxKv, new_BxTxKv), dim=1)
        key_BxSxH, value_BxSxH = seen_BxSxKv.chunk(2, dim=2)
        mixed_BxAxTxE = functional.scaled_dot_product_attention(
            rotated(self._by_head(query_BxTxH), turns_Sx1xP[-n_new:]).transpose(1, 2),
            rotated(self._by_head(key_BxSxH), turns_Sx1xP).transpose(1, 2),
            self._by_head(value_BxSxH).transpose(1, 2),
            attn_mask=is_seen_TxS,
        )
        return self.outer(mixed_BxAxTxE.transpose(1, 2).reshape(x_NxH.shape)), seen_BxSxKv

    def _by_head(self, x_BxSxH: Tensor) -> Tensor:
        return x_BxSxH.reshape(*x_BxSxH.shape[:2], self.heads, -1)


class Block(nn.Module):
    """Attention, then a feed-forward layer; each adds to what comes in."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = Attention(config.hidden, config.heads)
        self.feed_forward = FeedForward(config.hidden, config.feed_forward, functional.gelu)

    def forward(
        self,
        x_NxH: Tensor,
        kept_BxMxKv: Tensor,
        turns_Sx1xP: Tensor,
        is_seen_TxS: Tensor,
        dropout: Dropout | None,
    ) -> tuple[Tensor, Tensor]:
        """The rows after this block, and keys and values of all tokens seen."""
        added_NxH, seen_BxSxKv = self.attention(x_NxH, kept_BxMxKv, turns_Sx1xP, is_seen_TxS)
        x_NxH = x_NxH + dropped(added_NxH, dropout)
        return x_NxH + dropped(self.feed_forward(x_NxH), dropout), seen_BxSxKv


class TransformerNetwork(Network):
    """Embedding, blocks, a last norm, output layer.  The state: keys and values of the last M tokens in K layers."""

    def __init__(self, config: TransformerConfig, n_symbols: int, bos_id: int) -> None:
        super().__init__(n_symbols, bos_id, config.hidden)
        self.span = config.span
        self.embedding = nn.Parameter(torch.zeros(n_symbols, config.hidden))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = Norm(config.hidden)
        self.head_size = config.hidden // config.heads
        if config.tie:
            self.tie(self.embedding)

    def weights(self) -> dict[str, nn.Parameter]:
        named = {"embedding": self.embedding}
        for k, block in enumerate(self.blocks):
            named |= {f"block{k}.{name}": weight for name, weight in block.named_parameters()}
        named |= {f"norm.{name}": weight for name, weight in self.norm.named_parameters()}
        return named | self.output_weights()

    def zero_state(self, batch_size: int) -> Tensor:
        """The state before anything was read, (K, B, 0, 2H)."""
        return self.output_weight.new_zeros(len(self.blocks), batch_size, 0, 2 * self.hidden)

    def forward(self, ids_TxB: Tensor, state_KxBxMxKv: Tensor, dropouts: Dropouts = NOTHING) -> tuple[Tensor, Tensor]:
        """What the output layer reads (T, B, H) and the state after the last step."""
        turns_Sx1xP, is_seen_TxS = self._band(len(ids_TxB), state_KxBxMxKv.shape[2])
        # rows rather than (B, T, H): dropout shares no mask between tokens
        x_NxH = functional.embedding(ids_TxB.t().reshape(-1), self.embedding)
        x_NxH = dropped(x_NxH, dropouts.input)
        after = []
        for block, kept_BxMxKv in zip(self.blocks, state_KxBxMxKv.unbind(0), strict=True):
            x_NxH, seen_BxSxKv = block(x_NxH, kept_BxMxKv, turns_Sx1xP, is_seen_TxS, dropouts.hidden)
            after.append(seen_BxSxKv[:, -self.span :])
        n_new, n_columns = ids_TxB.shape
        outputs_NxH = dropped(self.norm(x_NxH), dropouts.output)
        return outputs_NxH.reshape(n_columns, n_new, -1).transpose(0, 1), torch.stack(after)

    def _band(self, n_new: int, n_kept: int) -> tuple[Tensor, Tensor]:
        """How each place turns pairs of numbers, complex (S, 1, P), and which places a new token sees, (T, S)."""
        places_S = torch.arange(n_kept + n_new, device=self.device)
        pairs_P = torch.arange(0, self.head_size, 2, device=self.device, dtype=torch.float64)
        angles_Sx1xP = places_S[:, None, None] * _ROTARY_BASE ** (-pairs_P / self.head_size)
        distances_TxS = places_S[n_kept:, None] - places_S
        turns_Sx1xP = torch.polar(torch.ones_like(angles_Sx1xP), angles_Sx1xP)
        # there are no complex numbers of bfloat16
        is_exact = self.embedding.dtype == torch.float64
        turns_Sx1xP = turns_Sx1xP.to(torch.complex128 if is_exact else torch.complex64)
        return turns_Sx1xP, (distances_TxS >= 0) & (distances_TxS <= self.span)


def rotated(x_BxSxAxE: Tensor, turns_Sx1xP: Tensor) -> Tensor:
    """Pairs of numbers turned by the angle of their place (Su et al. 2021, equation 34): products know distances alone.

    Pairs are multiplied as complex numbers: half the time of cosines and sines in torch's real arithmetic.
    """
    pairs_BxSxAxPx2 = x_BxSxAxE.to(turns_Sx1xP.real.dtype).unflatten(-1, (-1, 2))  # type: ignore[no-untyped-call]
    turned_BxSxAxP = torch.view_as_complex(pairs_BxSxAxPx2) * turns_Sx1xP
    return torch.view_as_real(turned_BxSxAxP).flatten(-2).to(x_BxSxAxE.dtype)
