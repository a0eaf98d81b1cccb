"""Scoring: every token once, from a fresh start, whatever the batches and the chunks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.corpus import corpus_from_texts, encode_split, load_corpus
from lmzoo.driver import train
from lmzoo.errors import InputError, NotNormalizedError, VocabularyMismatchError
from lmzoo.evaluation import (
    block_bounds,
    document_tallies,
    evaluate,
    evaluate_blocks,
    tally_of,
    token_nats,
    top1_accuracy,
)
from lmzoo.interface import all_logprobs, matched_orders, select
from lmzoo.tally import Tally
from lmzoo.vocab import build_vocab

from .toy import FixedModel, HistoryModel, UniformModel, corpus_of, split_of

pytestmark = pytest.mark.plain

LN2 = math.log(2)

lines = st.lists(st.text("abc ", max_size=25), min_size=1, max_size=12)
batch_sizes = st.integers(1, 15)
chunk_lengths = st.integers(1, 40)


def by_lines(lines, vocab=None):
    return encode_split("test", lines, vocab or build_vocab(["abc "], has_eos=True), "line")


def one_by_one(model, split):
    """-ln p of every token, asked for in the plainest way: one document, one token at a time."""
    nats = []
    for document in split:
        state = model.initial_state(1, bos=True)
        for token in document.ids_L:
            nats.append(-model.next_logprobs(state)[0, token])
            _, state = model.logprobs(np.array([[token]]), state)
    return nats


class TestUniform:
    @pytest.mark.parametrize("n_tokens", [2, 3, 36, 71, 1003])
    @pytest.mark.parametrize("batch_size", [1, 7, 20, 64])
    @pytest.mark.parametrize("chunk_length", [1, 2, 35, 70, 5000])
    def test_its_perplexity_is_the_number_of_predictable_symbols(self, n_tokens, batch_size, chunk_length):
        split = split_of(("abcde " * 200)[:n_tokens])
        tally = evaluate(UniformModel(split.vocab), split, batch_size=batch_size, chunk_length=chunk_length)
        assert tally.n_tokens == n_tokens
        assert tally.perplexity == pytest.approx(split.vocab.n_predictable, rel=1e-12)

    @pytest.mark.parametrize("documents", ["line", "running"])
    def test_the_end_counts_among_the_symbols(self, documents):
        split = split_of("ab\nb\n\na\n", documents=documents)
        tally = evaluate(UniformModel(split.vocab), split)
        assert split.vocab.n_predictable == 4  # <unk> </s> a b
        assert tally.perplexity == pytest.approx(4.0, rel=1e-12)


class TestBatchesAndChunks:
    @given(lines, batch_sizes, chunk_lengths)
    def test_every_token_is_scored_once_given_all_before_it(self, lines, batch_size, chunk_length):
        split = by_lines(lines)
        model = HistoryModel(split.vocab)
        nats_N = token_nats(model, split, batch_size=batch_size, chunk_length=chunk_length)
        assert nats_N.tolist() == one_by_one(model, split)

    @given(lines, batch_sizes, chunk_lengths)
    def test_they_never_change_the_tally(self, lines, batch_size, chunk_length):
        split = by_lines(lines)
        model = HistoryModel(split.vocab)
        assert evaluate(model, split, batch_size=batch_size, chunk_length=chunk_length) == evaluate(model, split)

    @pytest.mark.parametrize("batch_size", [1, 7, 20, 64])
    def test_a_short_and_a_long_document_together(self, batch_size):
        split = by_lines(["ab", "abc " * 250])
        model = HistoryModel(split.vocab)
        tallies = document_tallies(model, split, token_nats(model, split, batch_size=batch_size))
        alone = [evaluate(model, by_lines([text], split.vocab)) for text in split.segments]
        assert tallies == alone

    @pytest.mark.parametrize("chunk_length", [35, 70, 5000])
    def test_a_line_of_a_hundred_thousand_tokens(self, chunk_length):
        split = split_of("abc ab " * 14_286, documents="line")
        model = HistoryModel(split.vocab)
        assert split.n_tokens == 100_003
        whole = evaluate(model, split, chunk_length=split.n_tokens)
        assert evaluate(model, split, chunk_length=chunk_length) == whole

    @pytest.mark.parametrize(("name", "value"), [("batch_size", 0), ("chunk_length", -1)])
    def test_sizes_below_one_are_refused(self, name, value):
        split = split_of("ab")
        with pytest.raises(InputError, match=f"{name} must be at least 1, got {value}"):
            evaluate(UniformModel(split.vocab), split, **{name: value})


class TestContext:
    @given(lines)
    def test_scoring_twice_gives_the_same(self, lines):
        split = by_lines(lines)
        model = HistoryModel(split.vocab)
        assert evaluate(model, split) == evaluate(model, split)

    @given(lines)
    def test_documents_do_not_see_each_other(self, lines):
        there, back = by_lines(lines), by_lines(lines[::-1])
        model = HistoryModel(there.vocab)
        nats = [
            sorted(tally.nll_nats for tally in document_tallies(model, split, token_nats(model, split)))
            for split in (there, back)
        ]
        assert nats[0] == nats[1]

    def test_a_repeated_line_scores_the_same_unless_the_text_is_running(self):
        by_line = split_of("abc a\nabc a\n", documents="line")
        running = split_of("abc a\nabc a\n", documents="running", vocab=by_line.vocab)
        model = HistoryModel(by_line.vocab)
        first, second = np.split(token_nats(model, by_line), 2)
        assert first.tolist() == second.tolist()
        first, second = np.split(token_nats(model, running), 2)
        assert first.tolist() != second.tolist()

    def test_an_adaptive_model_reads_the_documents_one_by_one_in_order(self):
        class Recorder(UniformModel):
            is_adaptive = True
            lengths: list[int] = []  # noqa: RUF012

            def logprobs(self, tokens_BxL, state):
                self.lengths.append(tokens_BxL.shape)
                return super().logprobs(tokens_BxL, state)

        split = by_lines(["a", "abcabc", "ab"])
        evaluate(Recorder(split.vocab), split)
        assert Recorder.lengths == [(1, 2), (1, 7), (1, 3)]


class TestTally:
    def test_bits_by_hand_with_the_charge_for_spelling(self):
        # "ab" occurs once, below min_freq, so <unk> is all that b can be
        vocab = build_vocab(["a a ab"], tokenizer="word", has_eos=True, min_freq=2)
        assert vocab.tokens == ("<unk>", "<s>", "</s>", "a")
        split = encode_split("test", ["a b"], vocab, "line")
        model = FixedModel(vocab, {"<unk>": 0.25, "</s>": 0.25, "a": 0.5})
        tally = evaluate(model, split)
        # a 1 bit, <unk> 2 bits, </s> 2 bits
        assert tally.nll_nats == pytest.approx(5 * LN2)
        # letters of "a a ab" with one added: a 4, b 2, three ends and one 4, the escape 1: 11 in all
        spelling_bits = -math.log2(2 / 11 * 4 / 11)
        assert tally.spelling_nats == pytest.approx(spelling_bits * LN2)
        # "a b" and the line end are 4 characters
        assert tally.bits_per_char == pytest.approx((5 + spelling_bits) / 4)
        assert tally.bits_per_byte == tally.bits_per_char
        assert (tally.n_tokens, tally.n_oov, tally.n_chars, tally.n_bytes) == (3, 1, 4, 4)
        assert tally.perplexity_no_oov == pytest.approx(2 ** (3 / 2))

    def test_nats_are_summed_in_double_precision(self):
        split = split_of("abc ab " * 14_286)
        tally = evaluate(UniformModel(split.vocab), split)
        # summed in single precision the sixth digit or so would be another
        assert tally.nll_nats == pytest.approx(split.n_tokens * math.log(split.vocab.n_predictable), rel=1e-12)

    def test_a_fair_coin_is_one_bit(self):
        split = split_of("abba" * 5)
        tally = evaluate(FixedModel(split.vocab, {"a": 0.5, "b": 0.5}), split)
        assert tally.bits_per_char == pytest.approx(1.0)
        assert tally.nats_per_token == pytest.approx(0.6931, abs=5e-5)
        assert tally.perplexity == pytest.approx(2.0)

    def test_bytes_are_not_characters(self):
        split = split_of("é")
        tally = evaluate(FixedModel(split.vocab, {"é": 0.25}), split)
        assert tally.bits_per_char == pytest.approx(2.0)
        assert tally.bits_per_byte == pytest.approx(1.0)

    def test_a_normaliser_that_loses_something_has_no_bits_per_byte(self):
        corpus = corpus_of("Ab cd.", "Ab", normalize="letters")
        tally = evaluate(UniformModel(corpus.vocab), corpus.test)
        assert tally.bits_per_char == pytest.approx(math.log2(corpus.vocab.n_predictable))
        assert tally.bits_per_byte is None
        assert "text as read" in tally.bits_per_byte_reason

    def test_words_that_lose_white_space_have_no_bits(self):
        corpus = corpus_of("a b\n", "a  b\n", tokens="word")
        tally = evaluate(UniformModel(corpus.vocab), corpus.test)
        assert tally.bits_per_char is None
        assert "normalised text" in tally.bits_per_char_reason

    def test_each_document_has_its_own_unknown_tokens(self):
        # a </s>  z a </s>  b z z </s>
        split = encode_split("test", ["a", "za", "bzz"], build_vocab(["ab"], has_eos=True), "line")
        model = FixedModel(split.vocab, {"a": 0.25, "b": 0.25, "</s>": 0.25, "<unk>": 0.25})
        tallies = document_tallies(model, split, token_nats(model, split))
        assert [t.n_oov for t in tallies] == [0, 1, 2]
        assert [t.oov_nll_nats for t in tallies] == pytest.approx([0.0, 2 * LN2, 4 * LN2])
        z_nats = split.vocab.spelling.nats("z")
        assert [t.spelling_nats for t in tallies] == pytest.approx([0.0, z_nats, 2 * z_nats])
        whole, total = evaluate(model, split), sum(tallies)
        assert (total.n_tokens, total.n_oov, total.n_chars) == (whole.n_tokens, whole.n_oov, whole.n_chars)
        assert total.bits_per_char == pytest.approx(whole.bits_per_char)

    def test_impossible_tokens_are_counted(self):
        split = encode_split("test", ["abz", "zzb"], build_vocab(["ab"], has_eos=True), "line")
        tally = evaluate(FixedModel(split.vocab, {"a": 0.5, "</s>": 0.5}), split)
        assert (tally.n_zero, tally.n_oov, tally.n_oov_zero) == (5, 3, 3)
        assert tally.perplexity == tally.perplexity_no_oov == math.inf
        smoothed = evaluate(FixedModel(split.vocab, {"a": 0.25, "b": 0.25, "</s>": 0.5}), split)
        assert smoothed.perplexity == math.inf
        # a b </s> b </s>: 2 + 2 + 1 + 2 + 1 bits
        assert smoothed.perplexity_no_oov == pytest.approx(2 ** (8 / 5))

    def test_scores_that_are_no_distribution_have_no_perplexity(self):
        split = split_of("ab")
        model = UniformModel(split.vocab)
        model.is_normalized = False
        with pytest.raises(NotNormalizedError):
            evaluate(model, split).perplexity  # noqa: B018

    def test_another_vocabulary_is_refused_with_the_cure(self):
        split = split_of("ab")
        model = UniformModel(build_vocab(["abc"]))
        with pytest.raises(VocabularyMismatchError, match=r"5 symbols.*split\.encoded_with\(model\.vocab\)"):
            evaluate(model, split)
        assert evaluate(model, split.encoded_with(model.vocab)).n_tokens == 2


class TestBlocks:
    @given(lines)
    def test_they_add_up_to_the_whole(self, lines):
        split = by_lines(lines)
        model = HistoryModel(split.vocab)
        total, whole = sum(evaluate_blocks(model, split), Tally()), evaluate(model, split)
        assert total.n_tokens == whole.n_tokens
        assert total.nll_nats == pytest.approx(whole.nll_nats, rel=1e-12)

    def test_documents_are_the_blocks_where_there_are_fifty(self):
        split = by_lines(["ab", "c"] * 25)
        assert block_bounds(split) == list(
            zip(split.starts_D1[:-1].tolist(), split.starts_D1[1:].tolist(), strict=True)
        )
        blocks = evaluate_blocks(UniformModel(split.vocab), split)
        assert sum(b.n_chars for b in blocks) == split.chars_D.sum()
        assert all(b.chars_known for b in blocks)

    @given(st.lists(st.integers(1, 400), min_size=1, max_size=49))
    def test_fewer_documents_are_cut_into_enough_pieces(self, lengths):
        split = by_lines(["a" * n for n in lengths])
        bounds = block_bounds(split)
        assert len(bounds) >= min(50, split.n_tokens)
        assert [a for a, _ in bounds] == [0, *(b for _, b in bounds[:-1])]
        assert bounds[-1][1] == split.n_tokens
        assert set(split.starts_D1.tolist()) <= {0, *(b for _, b in bounds)}

    def test_pieces_of_documents_have_no_characters(self):
        split = split_of("abc " * 100)
        assert all(b.bits_per_char is None for b in evaluate_blocks(UniformModel(split.vocab), split))

    def test_nor_has_a_sum_with_a_piece_in_it(self):
        # the first document is a block of its own, the second is cut: the characters of one are no measure for both
        split = by_lines(["", "abc " * 100])
        blocks = evaluate_blocks(UniformModel(split.vocab), split)
        assert blocks[0].n_chars == 1
        assert sum(blocks).bits_per_char is None
        assert sum(blocks).bits_per_byte is None


class TestLineEndsAndMarks:
    @pytest.mark.parametrize("train_end", ["\n", "\r\n", "\r"])
    @pytest.mark.parametrize("test_end", ["\n", "\r\n", "\r"])
    def test_one_set_of_numbers(self, tmp_path, train_end, test_end):
        def load(train_end, test_end):
            train, test = tmp_path / "train.txt", tmp_path / "test.txt"
            train.write_bytes(f"a b{train_end}b a{train_end}{train_end}a".encode() * 3)
            test.write_bytes(f"b a{test_end}c{test_end}".encode())
            return load_corpus(train=train, test=test, tokens="word")

        plain, other = load("\n", "\n"), load(train_end, test_end)
        assert other.vocab.fingerprint == plain.vocab.fingerprint
        assert other.vocab.counts_V.tolist() == plain.vocab.counts_V.tolist()
        model = HistoryModel(plain.vocab)
        assert evaluate(model, other.test) == evaluate(model, plain.test)

    def test_a_byte_order_mark_and_a_nul_hide_nothing(self, tmp_path):
        path = tmp_path / "text.txt"
        path.write_bytes(b"\xef\xbb\xbfthe cat\nthe a\0b dog\n" * 10)
        corpus = load_corpus(path, tokens="word")
        assert "a\0b" in corpus.vocab.tokens
        assert sum(s.n_tokens for s in (corpus.train, corpus.valid, corpus.test)) == 10 * (3 + 4)
        # only the first mark is no part of the text
        assert corpus.train[0].text == "the cat"
        assert corpus.train[2].text == "\ufeffthe cat"


class TestAsking:
    def test_all_logprobs_one_by_one(self):
        split = split_of("abcab")
        model = HistoryModel(split.vocab)
        tokens_1xL = split.ids_N[None, :]
        state = model.initial_state()
        every_1xLxV = all_logprobs(model, tokens_1xL, state)
        given_1xL, _ = model.logprobs(tokens_1xL, state)
        assert every_1xLxV.shape == (1, 5, len(split.vocab))
        assert np.take_along_axis(every_1xLxV, tokens_1xL[..., None], axis=2)[..., 0].tolist() == given_1xL.tolist()
        assert all_logprobs(model, tokens_1xL[:, :0], state).shape == (1, 0, len(split.vocab))

    def test_a_models_own_methods_are_used(self):
        class Own(UniformModel):
            def all_logprobs(self, tokens_BxL, state):
                return "all"

            def matched_orders(self, tokens_BxL, state):
                return "orders"

            def select(self, state, rows):
                return "rows"

        model = Own(build_vocab(["ab"]))
        assert all_logprobs(model, np.zeros((1, 1), int), None) == "all"
        assert matched_orders(model, np.zeros((1, 1), int), None) == "orders"
        assert select(model, None, [0]) == "rows"

    def test_rows_of_an_array_state_are_selected(self):
        model = HistoryModel(build_vocab(["ab"]))
        _, state = model.logprobs(np.array([[2, 3], [3, 2]]), model.initial_state(2))
        assert select(model, state, [1]).tolist() == state[1:].tolist()
        assert matched_orders(model, np.zeros((1, 1), int), state) is None
        with pytest.raises(TypeError, match="HistoryModel has no select"):
            select(model, ("a tuple",), [0])

    def test_top1_accuracy(self):
        split = by_lines(["aab", "b", "a"])  # a a b </s> b </s> a </s>
        model = FixedModel(split.vocab, {"a": 0.6, "b": 0.1, "</s>": 0.3})
        assert top1_accuracy(model, split) == 3 / 8
        assert top1_accuracy(model, split, max_tokens=4) == 2 / 4

    def test_the_state_goes_with_top1_accuracy(self):
        split = by_lines(["abc " * 60, "ab"])
        model = HistoryModel(split.vocab)
        best = []
        for document in split:
            state = model.initial_state()
            for token in document.ids_L:
                best.append(model.next_logprobs(state)[0].argmax() == token)
                _, state = model.logprobs(np.array([[token]]), state)
        assert top1_accuracy(model, split) == np.mean(best)

    def test_tally_of_takes_nats_as_they_are(self):
        split = split_of("ab")
        assert tally_of(UniformModel(split.vocab), split, np.array([1.0, 2.0])).nll_nats == 3.0


class TestLineEndsThatAreNotPredicted:
    """Lines of a and b that end with chance 1/3 after each letter: no model can know more than that.

    The first letter of a line is one bit, and each of the three symbols that follow on average log2 3 bits.
    """

    entropy_bits = (1 + 3 * math.log2(3)) / 4

    def texts(self):
        rng = np.random.default_rng(0)
        lines = ["".join(rng.choice(["a", "b"], size=n)) for n in rng.geometric(1 / 3, size=6000)]
        return {"train": "\n".join(lines[:3000]) + "\n", "test": "\n".join(lines[3000:]) + "\n"}

    @pytest.mark.parametrize("scored", ["file", "line", "paragraph", "running"])
    @pytest.mark.parametrize("trained", ["file", "line", "running"])
    def test_no_figure_is_below_the_entropy_of_the_source(self, trained, scored):
        model = train("ngram:order=2,smoothing=addk", corpus_from_texts(self.texts(), documents=trained))
        split = corpus_from_texts(self.texts(), documents=scored).test.encoded_with(model.vocab)
        whole = evaluate(model, split)
        each = document_tallies(model, split, token_nats(model, split))
        summed = sum(each[1:], each[0])
        for tally in (whole, summed):
            if trained == "file" != scored:
                assert tally.bits_per_char is None
                assert tally.bits_per_byte is None
                assert "predicts no line ends" in tally.bits_per_char_reason
            else:
                assert tally.bits_per_char > self.entropy_bits - 0.01
                assert tally.bits_per_byte == tally.bits_per_char
        assert math.isfinite(whole.perplexity)

    def test_nor_of_the_first_documents_alone(self):
        model = train("ngram:order=2,smoothing=addk", corpus_from_texts(self.texts(), documents="file"))
        split = corpus_from_texts(self.texts(), documents="line").test.encoded_with(model.vocab)
        head = split.head(100)
        assert len(head) > 1
        assert evaluate(model, head).bits_per_char is None
