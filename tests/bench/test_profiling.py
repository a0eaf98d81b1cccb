"""Profiles: sums that are the test text's, counts by hand, and a passage that is the evaluation's own."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bench import throughput
from bench.measure import Trial
from bench.profiled import Bucket, Confidence, Passage, Profile
from bench.profiling import matches, surprisal
from bench.profiling import profile as profiling
from bench.profiling.guesses import guesses_of
from bench.profiling.place import place_of, prompt_of, read_tokens, unknown_in, written
from bench.profiling.profile import profile_of, sample_of
from bench.records import CorpusSpec, TrialRecord
from lmzoo.corpus import Corpus, Split, corpus_from_texts
from lmzoo.driver import train
from lmzoo.evaluation import token_nats
from lmzoo.interface import matched_orders
from lmzoo.vocab import Vocab
from tests.bench.profiled import passage, profile, with_profile
from tests.bench.stubs import make_trial
from tests.bench.synthetic import ok, trial
from tests.lmzoo.toy import FixedModel, HistoryModel, UniformModel

LINE = st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=6).map(" ".join)
LINES = st.lists(LINE, min_size=1, max_size=6)
KINDS, POLICIES = st.sampled_from(["char", "word", "byte"]), st.sampled_from(["file", "line", "running"])
TEXT = "the cat sat on the mat and the dog sat on the log\n" * 60
WITTEN_BELL = "ngram:order=3,smoothing=wb"


def corpus_of(train_text: str, test: str, **how: Any) -> Corpus:
    return corpus_from_texts({"train": train_text, "valid": train_text, "test": test}, **how)


def all_orders(text: Corpus) -> np.ndarray:
    return matches.longest_matches(text.train, text.test, surprisal.counts_in(text.train))


def profiled(model: Any, text: Corpus, *, with_text: bool = True) -> Profile:
    place = place_of(text.test) if with_text else range(0)
    nats_N = token_nats(model, text.test)
    return profile_of(model, text, nats_N, guesses_of(model, text.test, place), place, with_text=with_text)


# --- kinds of tokens


def test_tokens_are_counted_by_how_often_training_has_them() -> None:
    # training: a 12 times, b twice, c once; d is a symbol of nobody
    text = corpus_of("a " * 12 + "b b c", "a b c d a", tokens="word", documents="file")
    nats_N = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    found = surprisal.by_frequency(text.test, nats_N, surprisal.counts_in(text.train))
    assert [(b.low, b.high, b.n_tokens, b.nats) for b in found] == [
        (None, None, 1, 8.0),
        (1, 1, 1, 4.0),
        (2, 9, 1, 2.0),
        (10, 99, 2, 17.0),
    ]


@pytest.mark.parametrize(
    ("count", "bounds"),
    [(0, (0, 0)), (1, (1, 1)), (2, (2, 9)), (9, (2, 9)), (10, (10, 99)), (99, (10, 99)), (1000, (1000, 9999))],
)
def test_frequencies_are_powers_of_ten(count: int, bounds: tuple[int, int]) -> None:
    split = corpus_of("ab", "a").test
    counts_V = np.full(len(split.vocab), count)
    (bucket,) = surprisal.by_frequency(split, np.array([1.0]), counts_V)
    assert (bucket.low, bucket.high) == bounds


def test_a_rare_word_that_became_unknown_is_out_of_vocabulary() -> None:
    # <unk> stands in the training text three times, for b and for c; a test token c is unknown, not frequent
    text = corpus_of("a a a a b c c", "a c", tokens="word", documents="file", min_freq=4)
    found = surprisal.by_frequency(text.test, np.array([1.0, 2.0]), surprisal.counts_in(text.train))
    assert [(b.low, b.n_tokens, b.nats) for b in found] == [(None, 1, 2.0), (2, 1, 1.0)]


def test_places_are_powers_of_two_within_each_document() -> None:
    text = corpus_of("abcde\n", "abcde\nab\n", documents="line")
    # a b c d e </s> a b </s>: places 1 to 6 and 1 to 3
    found = surprisal.by_position(text.test, np.arange(1.0, 10.0))
    assert [(b.low, b.high, b.n_tokens, b.nats) for b in found] == [
        (1, 1, 2, 1.0 + 7.0),
        (2, 3, 4, 2.0 + 3.0 + 8.0 + 9.0),
        (4, 7, 3, 4.0 + 5.0 + 6.0),
    ]


def test_an_impossible_token_makes_its_own_bucket_infinite_and_no_other() -> None:
    text = corpus_of("ab" * 5, "ab")
    found = surprisal.by_position(text.test, np.array([math.inf, 3.0]))
    assert [b.nats for b in found] == [None, 3.0]


@given(tokens=KINDS, documents=POLICIES, lines=LINES, seed=st.integers(0, 9))
def test_every_kind_adds_up_to_the_text(tokens: str, documents: str, lines: list[str], seed: int) -> None:
    text = corpus_of("a b ab\n" * 4, "\n".join(lines), tokens=tokens, documents=documents)
    nats_N = np.random.default_rng(seed).gamma(2.0, size=text.test.n_tokens)
    for buckets in (
        surprisal.by_frequency(text.test, nats_N, surprisal.counts_in(text.train)),
        surprisal.by_position(text.test, nats_N),
        surprisal.by_order(nats_N, all_orders(text)),
    ):
        assert sum(bucket.n_tokens for bucket in buckets) == text.test.n_tokens
        assert math.fsum(bucket.nats or 0.0 for bucket in buckets) == pytest.approx(math.fsum(nats_N), rel=1e-12)


# --- the longest match


def documents_of(split: Split) -> list[list[int]]:
    """The ids of each document, behind `<s>`."""
    return [[split.vocab.bos_id, *document.ids_L.tolist()] for document in split]


def longest_by_hand(text: Corpus) -> list[int]:
    grams = {
        tuple(ids[end - n : end])
        for ids in documents_of(text.train)
        for end in range(2, len(ids) + 1)
        for n in range(1, min(end, matches.LONGEST) + 1)
    }
    unknown = set(text.test.oov_M.tolist())
    found: list[int] = []
    for ids in documents_of(text.test):
        for end in range(2, len(ids) + 1):
            known = [n for n in range(1, min(end, matches.LONGEST) + 1) if tuple(ids[end - n : end]) in grams]
            found.append(0 if len(found) in unknown else max(known, default=0))
    return found


@given(documents=POLICIES, train_lines=LINES, test_lines=LINES, min_freq=st.integers(1, 2))
def test_the_longest_match_is_found(
    documents: str, train_lines: list[str], test_lines: list[str], min_freq: int
) -> None:
    text = corpus_of("\n".join(train_lines), "\n".join(test_lines), documents=documents, min_freq=min_freq)
    assert all_orders(text).tolist() == longest_by_hand(text)


def test_training_text_is_searched_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matches, "_BLOCK", 3)
    text = corpus_of("abcab\ncab\n", "abcabc\nbca\n", documents="line")
    assert all_orders(text).tolist() == longest_by_hand(text)


def test_an_n_gram_model_without_cut_offs_matches_the_same() -> None:
    text = corpus_of(TEXT, "the dog sat on the mat\nthe log and a cat\n", tokens="word", documents="line")
    model = train(WITTEN_BELL, text)
    own = [
        order
        for document in text.test
        for order in matched_orders(model, document.ids_L[None], model.initial_state())[0].tolist()  # type: ignore[index]
    ]
    orders_N = all_orders(text)
    known_N = np.setdiff1d(np.arange(text.test.n_tokens), text.test.oov_M)
    assert np.minimum(orders_N, 3)[known_N].tolist() == np.array(own)[known_N].tolist()


def test_a_text_that_is_too_long_is_not_searched_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "MOST_TRAIN_TOKENS", 10)
    text = corpus_of(TEXT, "the dog\n")
    found = profiled(UniformModel(text.vocab), text)
    assert found.by_order == ()
    assert "more than a few seconds" in found.absent["by_order"]
    assert found.passage is not None
    assert found.passage.orders == ()


# --- confidence


def test_the_reliability_of_a_fixed_model_is_known() -> None:
    # always a with 0.62: right in 3 of a a b </s> b </s> a </s>
    text = corpus_of("aab\n", "aab\nb\na\n", documents="line")
    model = FixedModel(text.vocab, {"a": 0.62, "b": 0.08, "</s>": 0.3})
    guesses = guesses_of(model, text.test, range(0))
    assert guesses.top1_accuracy == 3 / 8
    # 0.62 lies in (9/15, 10/15]
    assert [n for n, one in enumerate(guesses.confidences) if one.n_tokens] == [9]
    bin_ = guesses.confidences[9]
    assert (bin_.n_tokens, bin_.p_sum, bin_.n_right) == (8, pytest.approx(8 * 0.62), 3)
    found = profiled(model, text)
    assert found.calibration_error == pytest.approx(0.62 - 3 / 8)


def test_a_certain_model_is_in_the_last_bin_and_rounding_does_not_lead_out_of_it() -> None:
    text = corpus_of("ab", "aa")
    for p in (1.0, 1.0 + 1e-12):
        guesses = guesses_of(FixedModel(text.vocab, {"a": p}), text.test, range(0))
        assert [one.n_tokens for one in guesses.confidences][-1] == 2
        assert guesses.confidences[-1].p_sum == 2.0


@given(st.lists(st.tuples(st.integers(0, 14), st.booleans()), min_size=1, max_size=40))
def test_the_error_of_a_model_that_is_as_sure_as_it_is_right_is_nothing(found: list[tuple[int, bool]]) -> None:
    counts = [(sum(b == n for b, _ in found), sum(right for b, right in found if b == n)) for n in range(15)]
    even = tuple(Confidence(n_tokens=n, p_sum=float(right), n_right=right) for n, right in counts)
    known = profile(10, 20.0, confidences=even)
    assert known.calibration_error == 0.0
    # half a prediction more of confidence in each that has any
    above = tuple(one.model_copy(update={"p_sum": one.p_sum + 0.5 * one.n_tokens}) for one in even)
    assert profile(10, 20.0).model_copy(update={"confidences": above}).calibration_error == pytest.approx(0.5)


# --- the passage


class Growing(HistoryModel):
    """Learns from what it reads, as far as its evaluation knows."""

    is_adaptive = True


@pytest.mark.parametrize("kind", [HistoryModel, Growing, UniformModel])
@pytest.mark.parametrize("documents", ["line", "file"])
def test_the_passage_is_that_of_the_evaluation(kind: Any, documents: str) -> None:
    text = corpus_of("abc\n" * 9, "abcab" * 700 + "\ncab\n" * 20, documents=documents)
    model = kind(text.vocab)
    nats_N, place = token_nats(model, text.test), place_of(text.test)
    found = profiled(model, text).passage
    assert found is not None
    assert found.start == place.start > 0
    assert list(found.nats) == nats_N[place.start : place.stop].tolist()
    # the choices before each token are those after all of its document before it
    state = model.initial_state()
    for at, token in enumerate(text.test.ids_N[: place.stop].tolist()):
        if at >= place.start:
            p_V = np.exp(model.next_logprobs(state)[0])
            names, ps = found.choices[at - place.start], found.choices_p[at - place.start]
            assert names[0] == text.vocab.tokens[int(p_V.argmax())]
            assert ps == pytest.approx(sorted(p_V, reverse=True)[: len(ps)], rel=1e-3)
        _, state = model.logprobs(np.array([[token]]), state)


def test_a_passage_over_several_documents_knows_where_they_start_and_end() -> None:
    text = corpus_of("ab\n" * 9, "ab\nba\n" * 60, documents="line")
    found = profiled(HistoryModel(text.vocab), text).passage
    assert found is not None
    assert found.start == 0
    assert found.starts[:3] == (0, 3, 6)
    assert found.ends[:3] == (2, 5, 8)
    assert found.tokens[:6] == ("a", "b", "</s>", "b", "a", "</s>")


@pytest.mark.parametrize("tokens", ["char", "word", "byte", "grapheme"])
@pytest.mark.parametrize("documents", ["file", "line", "paragraph", "running"])
def test_a_passage_is_long_enough_and_bounded_whatever_the_text(tokens: str, documents: str) -> None:
    if tokens == "grapheme":
        pytest.importorskip("regex")
    for test in (
        "a",
        "a b\n",
        "the cat sat on the mat\n\n" * 400,
        "子曰學而時習之\n" * 99,
        "x" * 5000,
        "a" * 90 + " b",
    ):
        split = corpus_of("the cat\n子曰 sat on a mat\n\n", test, tokens=tokens, documents=documents).test
        place = place_of(split)
        assert 0 <= place.start < place.stop <= split.n_tokens
        assert len(place) <= 300
        if place.stop < split.n_tokens:
            texts = [written(split.vocab, int(split.ids_N[at])) for at in place]
            assert len(place) >= 60
            assert len(place) == 300 or len(" ".join(texts)) >= 240
        assert len(read_tokens(split, place)) == len(place)


def test_a_passage_in_a_long_document_starts_with_a_word() -> None:
    split = corpus_of("word and\n", "word and " * 1000).test
    start = place_of(split).start
    assert 1000 <= start < 1010
    assert written(split.vocab, int(split.ids_N[start - 1])) == " "


def test_unknown_words_are_read_as_they_stand_in_the_text() -> None:
    text = corpus_of("the cat sat\n" * 3, "The unicorn sat\nthe <unk> </s>\n", tokens="word", normalize="lower")
    place = place_of(text.test)
    assert read_tokens(text.test, place) == ["the", "unicorn", "sat", "</s>", "the", "<unk>", "</s>", "</s>"]
    # the second line's are words that read like markers; the ends are ends
    assert unknown_in(text.test, place) == [1, 5, 6]
    found = profiled(UniformModel(text.vocab), text).passage
    assert found is not None
    assert found.ends == (3, 7)


def test_a_word_that_reads_like_a_marker_is_told_from_it() -> None:
    vocab = corpus_of("a </s> b\n", "a\n", tokens="word").vocab
    assert [written(vocab, number) for number in range(len(vocab))][:3] == ["<unk>", "<s>", "</s>"]
    assert "\\</s>" in [written(vocab, number) for number in range(3, len(vocab))]


def test_a_part_of_a_character_is_written_as_the_vocabulary_writes_it() -> None:
    split = corpus_of("é a", "é a", tokens="byte").test
    assert read_tokens(split, place_of(split)) == ["Ã", "©", " ", "a"]


def test_an_endless_word_is_shortened() -> None:
    split = corpus_of("acgt " + "acgt" * 500, "acgt" * 500, tokens="word").test
    (token, _) = read_tokens(split, place_of(split))
    assert len(token) == 60
    assert token.endswith("…")


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("In the beginning God created the heaven", "In the beginning God "),
        ("  short text", "short text"),
        ("子曰學而時習之不亦說乎有朋自遠方來不亦樂乎人不知而不慍", "子曰學而時習之不亦說乎有朋自遠方來不亦樂乎人不知"),
        ("\n\n", ""),
    ],
)
def test_a_prompt_is_the_first_words(text: str, prompt: str) -> None:
    assert prompt_of(corpus_of(text * 2 + "x", text).test) == prompt


def test_models_that_cannot_tell_an_order_have_none_and_counting_models_have_theirs() -> None:
    text = corpus_of(TEXT, TEXT[:300])
    plain, counting = (profiled(model, text).passage for model in (UniformModel(text.vocab), train(WITTEN_BELL, text)))
    assert plain is not None
    assert plain.model_orders == ()
    assert counting is not None
    assert counting.model_orders == tuple(min(order, 3) for order in counting.orders)


class BadOrders(UniformModel):
    def matched_orders(self, tokens_BxL: Any, state: Any) -> Any:
        return np.ones((1, 1), np.int64)


def test_what_a_model_cannot_tell_costs_it_nothing_else() -> None:
    text = corpus_of(TEXT, TEXT[:300])
    found = profiled(BadOrders(text.vocab), text)
    assert "matched_orders told of 1 tokens" in found.absent["model_orders"]
    assert found.passage is not None
    assert Profile.model_validate_json(found.model_dump_json()) == found


# --- samples


def test_a_sample_has_about_200_characters_and_goes_on_behind_line_ends() -> None:
    text = corpus_of(TEXT, TEXT, tokens="word", documents="line")
    found = sample_of(train(WITTEN_BELL, text), text.test)
    assert found.prompt == "the cat sat on the mat"
    assert found.text is not None
    assert 100 < len(found.text) < 300
    assert "\n" in found.text
    assert sample_of(train(WITTEN_BELL, text), text.test) == found


def test_a_line_that_ends_at_once_is_not_written_for_ever() -> None:
    text = corpus_of("a\nb\n", "a\n", tokens="word", documents="line")
    found = sample_of(FixedModel(text.vocab, {"</s>": 1.0}), text.test)
    assert found.text == "\n" * 7


class Mute(UniformModel):
    def next_logprobs(self, state: Any) -> Any:
        raise RuntimeError("no words at /home/jo/models")


def test_a_model_that_cannot_write_says_why() -> None:
    text = corpus_of(TEXT, TEXT)
    found = sample_of(Mute(text.vocab), text.test)
    assert found.text is None
    assert found.reason is not None
    assert found.reason.startswith("RuntimeError: no words at")
    assert "/home" not in found.reason


def test_bytes_that_are_no_character_are_still_a_record() -> None:
    text = corpus_of("é" * 40, "é" * 40, tokens="byte")
    found = profiled(UniformModel(text.vocab), text)
    assert Profile.model_validate_json(found.model_dump_json()) == found


# --- records


@pytest.fixture(autouse=True)
def short_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "REPEAT_S", 0.001)


def run(folder: Path, model: str = "trigram", text: str = TEXT, **changes: Any) -> TrialRecord:
    path = folder / "text.txt"
    path.write_text(text, encoding="utf-8")
    spec = make_trial(model, corpus=CorpusSpec(name=str(path)), **changes)
    return Trial(spec, lambda: 1.0, lambda _: None).run()


def test_a_trial_has_a_profile_and_the_checks_of_its_probabilities(tmp_path: Path) -> None:
    record = run(tmp_path)
    assert record.measured is not None
    found = record.measured.profile
    assert found is not None
    assert found.passage is not None
    assert found.sample is not None
    assert record.measured.checks["probability.sums_to_one"] == "passed"
    assert TrialRecord.model_validate_json(record.model_dump_json()) == record
    # a passage of 300 characters, each with five alternatives
    assert len(found.model_dump_json(indent=1)) < 100_000
    json.dumps(found.model_dump(mode="json"), allow_nan=False)


def test_impossible_tokens_leave_no_infinity_in_a_record(tmp_path: Path) -> None:
    paths = {part: tmp_path / f"{part}.txt" for part in ("train", "valid", "test")}
    for part, text in {"train": "abc" * 50, "valid": "abc" * 10, "test": "abcacb" * 10}.items():
        paths[part].write_text(text, encoding="utf-8")
    corpus = CorpusSpec(**{part: str(path) for part, path in paths.items()})
    record = Trial(make_trial("ngram:order=2,smoothing=mle", corpus=corpus), lambda: 1.0, lambda _: None).run()
    assert record.status == "ok"
    assert record.measured is not None
    found = record.measured.profile
    assert found is not None
    assert None in [bucket.nats for bucket in found.by_order]
    json.dumps(record.model_dump(mode="json"), allow_nan=False)


def test_a_trial_without_text_holds_aggregates_alone(tmp_path: Path) -> None:
    words = "zorvak plimset quandro"
    with_text, without = (
        run(tmp_path, text=f"{words}\n" * 90, with_text=flag).model_dump_json() for flag in (True, False)
    )
    record = TrialRecord.model_validate_json(without)
    assert record.measured is not None
    found = record.measured.profile
    assert found is not None
    assert (found.passage, found.sample) == (None, None)
    assert sorted(found.absent) == ["passage", "sample"]
    assert sum(bucket.n_tokens for bucket in found.by_frequency) == record.measured.test.n_tokens
    # one symbol a token: the words are spelled out in the passage
    assert '"z"' in with_text
    assert '"z"' not in without


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"by_frequency": (Bucket(low=1, high=1, n_tokens=3, nats=1.0),)}, "tokens by frequency: the blocks' sum is 3"),
        ({"by_position": (Bucket(low=1, high=1, n_tokens=20_000, nats=1.0),)}, "nats by position"),
        ({"confidences": (Confidence(n_tokens=9, p_sum=5.0, n_right=8),) * 15}, "right guesses"),
        ({"confidences": ()}, "confidence has 15 bins, got 0"),
    ],
)
def test_a_profile_that_does_not_add_up_makes_a_record_unreadable(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        with_profile(ok(trial("kn5"), 4.4), **change)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"nats": (1.0,)}, "13 tokens has 1 nats"),
        ({"orders": (1,)}, "13 tokens has 1 orders"),
        ({"ends": (13,)}, "outside a passage"),
        ({"choices_p": ((0.5,),) * 13}, "not the same number"),
    ],
)
def test_a_passage_of_uneven_parts_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        passage(**change)


def test_more_right_ones_than_there_are_cannot_be() -> None:
    with pytest.raises(ValidationError, match="cannot have 3 right ones"):
        Confidence(n_tokens=2, p_sum=1.0, n_right=3)


def test_a_record_of_schema_3_is_read(tmp_path: Path) -> None:
    record = ok(trial("kn5"), 4.4).model_dump(mode="json") | {"schema_version": 3}
    del record["measured"]["profile"], record["measured"]["checks"], record["trial"]["with_text"]
    read = TrialRecord.model_validate(record)
    assert read.measured is not None
    assert (read.measured.profile, read.measured.checks) == (None, {})


def test_a_vocabulary_of_few_symbols_has_as_many_choices() -> None:
    text = corpus_of("aa", "aaa")
    found = profiled(FixedModel(text.vocab, {"a": 1.0}), text).passage
    assert isinstance(found, Passage)
    assert found.choices == (("a",),) * 3
    assert found.choices_p == ((1.0,),) * 3
    assert isinstance(text.vocab, Vocab)
