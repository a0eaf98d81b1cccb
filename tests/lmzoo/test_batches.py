"""Batches: what is predicted, from what, and where state goes on."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lmzoo.batches import (
    ShortTextWarning,
    largest_batch,
    one_hot,
    random_batches,
    sequential_batches,
    warn_of_short_text,
)
from lmzoo.errors import InputError
from lmzoo.vocab import Vocab

from .toy import split_of

pytestmark = pytest.mark.plain

sizes = {"batch_size": st.integers(1, 7), "num_steps": st.integers(1, 9), "seed": st.integers(0, 99)}


def inputs_of(split) -> np.ndarray:
    """The token before each token of a split, `<s>` where a document starts; int32 of shape (N,)."""
    inputs_N = np.empty_like(split.ids_N)
    inputs_N[1:] = split.ids_N[:-1]
    inputs_N[split.starts_D1[:-1][split.lengths_D > 0]] = split.vocab.bos_id
    return inputs_N


def numbered(*lengths, documents="line"):
    """A split of documents of these lengths in which every token is another one, so that it says where it stands."""
    tokens = ("<unk>", "<s>", "</s>", *(f"t{i}" for i in range(sum(lengths))))
    vocab = Vocab(tokens=tokens, counts_V=np.ones(len(tokens), np.int64), tokenizer="word")
    split = split_of("a\n" * len(lengths), documents=documents)
    ends = np.cumsum([0, *lengths])
    replaced = {
        "vocab": vocab,
        "ids_N": np.arange(3, 3 + sum(lengths), dtype=np.int32),
        "starts_D1": ends.astype(np.int64),
    }
    return type(split)(**{**{f: getattr(split, f) for f in split.__dataclass_fields__}, **replaced})


def real(batch):
    """The (input, target) pairs of a batch, padding left out."""
    mask = np.ones(batch.targets_TxB.shape, bool) if batch.mask_TxB is None else batch.mask_TxB
    return list(zip(batch.inputs_TxB[mask].tolist(), batch.targets_TxB[mask].tolist(), strict=True))


def expected_pairs(split):
    return set(zip(inputs_of(split).tolist(), split.ids_N.tolist(), strict=True))


class TestInputs:
    def test_the_input_is_the_token_before_and_the_start_at_the_start(self):
        split = numbered(3, 2)
        assert inputs_of(split).tolist() == [1, 3, 4, 1, 6]

    def test_one_hot_rows_are_rows_of_the_identity(self):
        ids = np.array([[0, 2], [1, 1]])
        encoded = one_hot(ids, 3)
        assert encoded.dtype == np.float32
        assert encoded.tolist() == [[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [0, 1, 0]]]


class TestEveryTarget:
    @given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12), **sizes)
    def test_random_sampling_predicts_every_token_once(self, lengths, batch_size, num_steps, seed):
        split = numbered(*lengths)
        rng = np.random.default_rng(seed)
        batches = list(random_batches(split, batch_size=batch_size, num_steps=num_steps, rng=rng))
        pairs = Counter(pair for batch in batches for pair in real(batch))
        assert set(pairs) == expected_pairs(split)
        assert set(pairs.values()) == {1}
        assert sum(batch.n_tokens for batch in batches) == split.n_tokens

    @given(
        lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12), spread=st.sampled_from([0, 0.4, 0.9]), **sizes
    )
    def test_sequential_partition_predicts_no_token_twice(self, lengths, spread, batch_size, num_steps, seed):
        split = numbered(*lengths)
        rng = np.random.default_rng(seed)
        options = {"batch_size": batch_size, "num_steps": num_steps, "spread": spread}
        batches = list(sequential_batches(split, rng=rng, **options))
        pairs = Counter(pair for batch in batches for pair in real(batch))
        assert set(pairs) <= expected_pairs(split)
        assert set(pairs.values()) == {1}

    @given(lengths=st.lists(st.integers(1, 20), min_size=2, max_size=20), **sizes)
    # the third has no fellow of its length in its batch, and columns of more than one token
    @example(lengths=[5, 5, 5], batch_size=2, num_steps=9, seed=0)
    def test_documents_too_short_to_partition_are_predicted_whole(self, lengths, batch_size, num_steps, seed):
        split = numbered(*lengths)
        rng = np.random.default_rng(seed)
        is_short = [n < batch_size * num_steps for n in lengths]
        pairs = {
            p for b in sequential_batches(split, batch_size=batch_size, num_steps=num_steps, rng=rng) for p in real(b)
        }
        for d, short in enumerate(is_short):
            ids = set(split.ids_N[split.starts_D1[d] : split.starts_D1[d + 1]].tolist())
            assert not short or ids <= {target for _, target in pairs}

    @given(spread=st.sampled_from([0.25, 0.8]), seed=st.integers(0, 99))
    def test_steps_are_spread_around_their_number(self, spread, seed):
        rng = np.random.default_rng(seed)
        split = numbered(2000)
        batches = list(sequential_batches(split, batch_size=2, num_steps=10, rng=rng, spread=spread))
        lengths = [len(batch.inputs_TxB) for batch in batches]
        assert len(set(lengths)) > 1
        assert all(round(10 * (1 - spread)) <= n <= round(10 * (1 + spread)) for n in lengths)
        # each column goes on where it was left
        for before, after in itertools.pairwise(batches):
            assert (after.inputs_TxB[0] == before.targets_TxB[-1]).all()

    @given(length=st.integers(1, 400), **sizes)
    def test_a_long_document_loses_no_more_than_an_offset_a_tail_and_a_row(self, length, batch_size, num_steps, seed):
        split = numbered(length)
        rng = np.random.default_rng(seed)
        batches = list(sequential_batches(split, batch_size=batch_size, num_steps=num_steps, rng=rng))
        n_predicted = sum(batch.n_tokens for batch in batches)
        # the offset, what fills no row of the columns, what fills no batch
        assert split.n_tokens - n_predicted <= (num_steps - 1) + (batch_size - 1) + batch_size * (num_steps - 1)
        assert n_predicted > 0


class TestState:
    @given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=8), **sizes)
    def test_columns_go_on_where_they_ended(self, lengths, batch_size, num_steps, seed):
        split = numbered(*lengths)
        rng = np.random.default_rng(seed)
        last_B = None
        for batch in sequential_batches(split, batch_size=batch_size, num_steps=num_steps, rng=rng):
            mask = np.ones(batch.targets_TxB.shape, bool) if batch.mask_TxB is None else batch.mask_TxB
            going_on = mask[0]
            if not batch.is_fresh:
                assert last_B is not None
                assert batch.inputs_TxB[0, going_on].tolist() == last_B[going_on].tolist()
            # inside a batch the input of a step is the target of the step before
            assert (batch.inputs_TxB[1:][mask[1:]] == batch.targets_TxB[:-1][mask[1:]]).all()
            last_B = batch.targets_TxB[-1]

    @given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=8), **sizes)
    def test_state_starts_anew_where_a_document_starts(self, lengths, batch_size, num_steps, seed):
        split = numbered(*lengths)
        rng = np.random.default_rng(seed)
        for batch in sequential_batches(split, batch_size=batch_size, num_steps=num_steps, rng=rng):
            starts = batch.inputs_TxB == split.vocab.bos_id
            assert not starts[1:].any()
            assert batch.is_fresh or not starts.any()

    @given(lengths=st.lists(st.integers(1, 20), min_size=2, max_size=12), **sizes)
    def test_state_goes_on_within_documents_that_lie_side_by_side(self, lengths, batch_size, num_steps, seed):
        assume(max(lengths) < batch_size * num_steps)
        split = numbered(*lengths)
        rng = np.random.default_rng(seed)
        for batch in sequential_batches(split, batch_size=batch_size, num_steps=num_steps, rng=rng):
            assert batch.is_fresh == (split.vocab.bos_id in batch.inputs_TxB[0])

    @given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=8), **sizes)
    def test_random_batches_are_always_fresh(self, lengths, batch_size, num_steps, seed):
        rng = np.random.default_rng(seed)
        batches = list(random_batches(numbered(*lengths), batch_size=batch_size, num_steps=num_steps, rng=rng))
        assert all(batch.is_fresh for batch in batches)
        assert all(batch.targets_TxB.shape[0] <= num_steps for batch in batches)
        assert all(batch.targets_TxB.shape[1] <= batch_size for batch in batches)


class TestPadding:
    @given(lengths=st.lists(st.integers(1, 20), min_size=2, max_size=12), **sizes)
    def test_it_stands_at_the_end_of_columns_only_and_is_zero(self, lengths, batch_size, num_steps, seed):
        split = numbered(*lengths)
        for make in (sequential_batches, random_batches):
            for batch in make(split, batch_size=batch_size, num_steps=num_steps, rng=np.random.default_rng(seed)):
                if batch.mask_TxB is None:
                    continue
                assert (batch.mask_TxB[:-1] >= batch.mask_TxB[1:]).all()
                assert not batch.mask_TxB.all()
                assert not batch.inputs_TxB[~batch.mask_TxB].any()
                assert not batch.targets_TxB[~batch.mask_TxB].any()


class TestOffset:
    def test_each_offset_comes_up_and_none_beyond(self):
        split = numbered(1000, documents="file")
        firsts = set()
        for seed in range(200):
            batch = next(iter(sequential_batches(split, batch_size=4, num_steps=5, rng=np.random.default_rng(seed))))
            firsts.add(int(batch.targets_TxB[0, 0]) - 3)
        assert firsts == {0, 1, 2, 3, 4}

    def test_the_textbooks_example(self):
        # 35 tokens, 2 columns, 5 steps: whatever the offset, three batches of (5, 2), columns side by side
        split = numbered(35, documents="file")
        batches = list(sequential_batches(split, batch_size=2, num_steps=5, rng=np.random.default_rng(1)))
        offset = int(batches[0].targets_TxB[0, 0]) - 3
        assert [b.targets_TxB.shape for b in batches] == [(5, 2)] * 3
        assert batches[0].targets_TxB[:, 0].tolist() == list(range(offset + 3, offset + 8))
        n_rows = (35 - offset) // 2
        assert (batches[0].targets_TxB[:, 1] - batches[0].targets_TxB[:, 0]).tolist() == [n_rows] * 5

    def test_the_first_input_behind_an_offset_is_the_token_before(self):
        split = numbered(100, documents="file")
        for seed in range(20):
            batch = next(iter(sequential_batches(split, batch_size=2, num_steps=5, rng=np.random.default_rng(seed))))
            first_target = batch.targets_TxB[0, 0]
            assert batch.inputs_TxB[0, 0] == (split.vocab.bos_id if first_target == 3 else first_target - 1)

    def test_the_same_generator_gives_the_same_batches(self):
        split = numbered(50, 3, 60, 8)
        for make in (sequential_batches, random_batches):
            one, two = (
                [b.targets_TxB.tolist() for b in make(split, batch_size=3, num_steps=4, rng=np.random.default_rng(5))]
                for _ in range(2)
            )
            assert one == two


@pytest.mark.parametrize("make", [sequential_batches, random_batches])
@pytest.mark.parametrize("bad", [{"batch_size": 0, "num_steps": 1}, {"batch_size": 1, "num_steps": -1}])
def test_sizes_below_one_are_refused(make, bad):
    with pytest.raises(InputError, match="must be at least 1"):
        list(make(numbered(5), rng=np.random.default_rng(0), **bad))


class TestShortTexts:
    @given(lengths=st.lists(st.integers(0, 40), min_size=1, max_size=12).filter(any), **sizes)
    def test_the_largest_batch_is_known_before_any_is_drawn(self, lengths, batch_size, num_steps, seed):
        split = numbered(*lengths)
        asked = {"batch_size": batch_size, "num_steps": num_steps}
        drawn = sequential_batches(split, **asked, rng=np.random.default_rng(seed))
        shapes = [batch.targets_TxB.shape for batch in drawn]
        columns, steps = largest_batch(split, **asked, is_sequential=True)
        assert (steps, columns) in shapes
        assert columns * steps == max(b * t for t, b in shapes)
        drawn = random_batches(split, **asked, rng=np.random.default_rng(seed))
        columns, steps = largest_batch(split, **asked, is_sequential=False)
        assert all(b <= columns and t <= steps for t, b in (batch.targets_TxB.shape for batch in drawn))

    @pytest.mark.parametrize(
        ("n_tokens", "asked", "used", "said"),
        [
            (
                10,
                (32, 35),
                (1, 10),
                r"\(10 tokens\) does not fill a batch of 32 x 35 \(batch_size x num_steps\); .* 1 x 10",
            ),
            (1, (32, 35), (1, 1), r"\(1 token\) does not fill"),
            (1119, (32, 35), (32, 34), "32 x 34 are used"),
            # long enough, but in three documents
            (3000, (32, 35), (3, 35), "3 x 35 are used"),
            (5, (256,), (5,), r"a batch of 256 \(batch_size\); batches of at most 5 are used"),
        ],
    )
    def test_what_was_asked_and_what_is_used_is_said(self, n_tokens, asked, used, said):
        with pytest.warns(ShortTextWarning, match=said):
            warn_of_short_text(n_tokens, asked=asked, used=used)

    # many short documents fill the columns, if not all the steps: that is no want of text
    @pytest.mark.parametrize(("n_tokens", "asked", "used"), [(1120, (32, 35), (32, 35)), (9999, (32, 35), (32, 2))])
    def test_of_what_is_enough_nothing_is_said(self, n_tokens, asked, used):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warn_of_short_text(n_tokens, asked=asked, used=used)
