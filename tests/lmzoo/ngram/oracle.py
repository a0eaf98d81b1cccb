"""Slow and plain, to compare with: n-gram probabilities straight from their definitions, with dictionaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

Gram = tuple[int, ...]


def raw_counts(documents: Sequence[Sequence[int]], order: int, bos: int) -> list[Counter[Gram]]:
    """Counts of the n-grams of orders 1 to `order` whose last token is predicted (never `<s>`)."""
    counts: list[Counter[Gram]] = [Counter() for _ in range(order)]
    for document in documents:
        tokens = (bos, *document)
        for end in range(1, len(tokens)):
            for k in range(1, min(order, end + 1) + 1):
                counts[k - 1][tokens[end - k + 1 : end + 1]] += 1
    return counts


def kneser_ney_counts(counts: Sequence[Counter[Gram]], bos: int) -> list[Counter[Gram]]:
    """Plain counts at the top and after `<s>`; else the number of different tokens before the n-gram."""
    adjusted = []
    for level, above in pairwise(counts):
        before = Counter(gram[1:] for gram in above)
        adjusted.append(Counter({g: n if g[0] == bos else before[g] for g, n in level.items()}))
    return [*adjusted, counts[-1]]


def kneser_ney(
    gram: Gram, counts: Sequence[Counter[Gram]], discounts: Sequence[Mapping[int, float]], n_predictable: int
) -> float:
    """Interpolated modified Kneser-Ney of the last token given those before it; the context as long as it is."""
    history = gram[:-1]
    level, discount = counts[len(history)], discounts[len(history)]
    followed = {g: n for g, n in level.items() if g[:-1] == history}
    lower = kneser_ney(gram[1:], counts, discounts, n_predictable) if history else 1 / n_predictable
    total = sum(followed.values())
    if not total:
        return lower
    rest = sum(discount[min(n, 3)] for n in followed.values())
    count = followed.get(gram, 0)
    return (count - (discount[min(count, 3)] if count else 0.0) + rest * lower) / total


def maximum_likelihood(gram: Gram, counts: Sequence[Counter[Gram]]) -> float:
    """Relative frequency after the longest suffix of the history that anything followed."""
    history = gram[:-1]
    followed = {g: n for g, n in counts[len(history)].items() if g[:-1] == history}
    if not followed:
        return maximum_likelihood(gram[1:], counts)
    return followed.get(gram, 0) / sum(followed.values())


def add_k(gram: Gram, counts: Sequence[Counter[Gram]], k: float, n_predictable: int) -> float:
    """(c + k) / (C + k V), the context taken whole."""
    history = gram[:-1]
    followed = {g: n for g, n in counts[len(history)].items() if g[:-1] == history}
    return (followed.get(gram, 0) + k) / (sum(followed.values()) + k * n_predictable)


def witten_bell(gram: Gram, counts: Sequence[Counter[Gram]], n_predictable: int) -> float:
    """(c + T p') / (C + T), T the number of different tokens that followed, p' one order below."""
    history = gram[:-1]
    followed = {g: n for g, n in counts[len(history)].items() if g[:-1] == history}
    lower = witten_bell(gram[1:], counts, n_predictable) if history else 1 / n_predictable
    if not followed:
        return lower
    return (followed.get(gram, 0) + len(followed) * lower) / (sum(followed.values()) + len(followed))


def backed_off(
    gram: Gram,
    counts: Sequence[Counter[Gram]],
    discounts: Sequence[Mapping[int, float]],
    predictable: Sequence[int],
) -> float:
    """Kneser-Ney, backed off: discounted counts where seen; the rest in proportion to one order below where not."""
    history = gram[:-1]
    level, discount = counts[len(history)], discounts[len(history)]
    followed = {g: n - discount[min(n, 3)] for g, n in level.items() if g[:-1] == history}

    def lower(g: Gram) -> float:
        return backed_off(g[1:], counts, discounts, predictable) if history else 1 / len(predictable)

    total = sum(level[g] for g in followed)
    if not total:
        return lower(gram)
    unseen = [lower((*history, t)) for t in predictable if (*history, t) not in followed]
    if not unseen:
        return followed[gram] / sum(followed.values())
    if gram in followed:
        return followed[gram] / total
    return (1 - sum(followed.values()) / total) * lower(gram) / sum(unseen)
