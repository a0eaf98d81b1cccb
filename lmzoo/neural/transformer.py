"""A causal transformer whose layers attend to a band of tokens: keys and values go on as a recurrent state does.

In every layer a token attends to itself and to the `span` tokens before it.  Their keys and values are kept from step
to step and from batch to batch, cut from the graph (Dai et al. 2019), so a long text costs each token once.  Positions
are relative: a score falls with the distance (Press et al. 2022), and nothing depends on where a text was cut.

Shapes: T new tokens, M tokens kept (at most `span`), S = M + T, A heads, K layers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from lmzoo.neural.config import TransformerConfig
from lmzoo.neural.network import Dropout, Network
from lmzoo.neural.residual import FeedForward, Linear, Norm


class Attention(nn.Module):
    """What attention adds to its input, normalised first (Vaswani et al. 2017, section 3.2; Radford et al. 2019)."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = Norm(hidden)
        self.inner = Linear(hidden, 3 * hidden)
        self.outer = Linear(hidden, hidden)

    def forward(self, x_NxH: Tensor, kept_BxMxKv: Tensor, bias_AxTxS: Tensor) -> tuple[Tensor, Tensor]:
        """What is added, and keys and values side by side of the tokens seen, (B, S, 2H); N = B x T."""
        hidden = x_NxH.shape[1]
        new_BxTxQkv = self.inner(self.norm(x_NxH)).unflatten(0, (len(kept_BxMxKv), -1))
        query_BxTxH, new_BxTxKv = new_BxTxQkv.split_with_sizes((hidden, 2 * hidden), dim=2)
        seen_BxSxKv = torch.cat((kept_BxMxKv, new_BxTxKv), dim=1)
        key_BxSxH, value_BxSxH = seen_BxSxKv.chunk(2, dim=2)
        mixed_BxAxTxE = functional.scaled_dot_product_attention(
            self._by_head(query_BxTxH), self._by_head(key_BxSxH), self._by_head(value_BxSxH), attn_mask=bias_AxTxS[None]
        )
        return self.outer(mixed_BxAxTxE.transpose(1, 2).reshape(x_NxH.shape)), seen_BxSxKv

    def _by_head(self, x_BxTxH: Tensor) -> Tensor:
        return x_BxTxH.reshape(*x_BxTxH.shape[:2], self.heads, -1).transpose(1, 2)


class Block(nn.Module):
    """Attention, then a feed-forward layer; each adds to what comes in."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = Attention(config.hidden, config.heads)
        self.feed_forward = FeedForward(config.hidden, config.feed_forward, functional.gelu)

    def forward(
        self, x_NxH: Tensor, kept_BxMxKv: Tensor, bias_AxTxS: Tensor, dropout: Dropout | None
    ) -> tuple[Tensor, Tensor]:
        """The rows after this block, and keys and values of all tokens seen."""
        added_NxH, seen_BxSxKv = self.attention(x_NxH, kept_BxMxKv, bias_AxTxS)
        x_NxH = x_NxH + (dropout(added_NxH) if dropout else added_NxH)
        added_NxH = self.feed_forward(x_NxH)
        return x_NxH + (dropout(added_NxH) if dropout else added_NxH), seen_BxSxKv


class TransformerNetwork(Network):
    """Embedding, blocks, a last norm, output layer.  The state: keys and values of the last M tokens in K layers."""

    slopes_A: Tensor

    def __init__(self, config: TransformerConfig, n_symbols: int, bos_id: int) -> None:
        super().__init__(n_symbols, bos_id, config.hidden)
        self.span = config.span
        self.embedding = nn.Parameter(torch.zeros(n_symbols, config.hidden))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = Norm(config.hidden)
        # Press et al. 2022, section 3: a geometric row that ends at 2^-8
        slopes_A = 2.0 ** (-8.0 * torch.arange(1, config.heads + 1) / config.heads)
        self.register_buffer("slopes_A", slopes_A, persistent=False)

    def weights(self) -> dict[str, nn.Parameter]:
        named = {"embedding": self.embedding}
        for k, block in enumerate(self.blocks):
            named |= {f"block{k}.{name}": weight for name, weight in block.named_parameters()}
        named |= {f"norm.{name}": weight for name, weight in self.norm.named_parameters()}
        return named | {"output.weight": self.output_weight, "output.bias": self.output_bias}

    def zero_state(self, batch_size: int) -> Tensor:
        """The state before anything was read, (K, B, 0, 2H)."""
        return self.output_weight.new_zeros(len(self.blocks), batch_size, 0, 2 * self.hidden)

    def forward(self, ids_TxB: Tensor, state_KxBxMxKv: Tensor, dropout: Dropout | None = None) -> tuple[Tensor, Tensor]:
        """What the output layer reads (T, B, H) and the state after the last step."""
        bias_AxTxS = self._bias(len(ids_TxB), state_KxBxMxKv.shape[2])
        # rows rather than (B, T, H): dropout shares no mask between tokens
        x_NxH = functional.embedding(ids_TxB.t().reshape(-1), self.embedding)
        x_NxH = dropout(x_NxH) if dropout else x_NxH
        after = []
        for block, kept_BxMxKv in zip(self.blocks, state_KxBxMxKv.unbind(0), strict=True):
            x_NxH, seen_BxSxKv = block(x_NxH, kept_BxMxKv, bias_AxTxS, dropout)
            after.append(seen_BxSxKv[:, -self.span :])
        hidden_BxTxH = self.norm(x_NxH).unflatten(0, (ids_TxB.shape[1], -1))
        return hidden_BxTxH.transpose(0, 1), torch.stack(after)

    def _bias(self, n_new: int, n_kept: int) -> Tensor:
        """What is added to the scores, (A, T, S): -slope x distance within the band, -inf outside it."""
        places_S = torch.arange(n_kept + n_new, device=self.device)
        distances_TxS = places_S[n_kept:, None] - places_S
        is_seen_TxS = (distances_TxS >= 0) & (distances_TxS <= self.span)
        return torch.where(is_seen_TxS, -self.slopes_A[:, None, None] * distances_TxS, -math.inf)
