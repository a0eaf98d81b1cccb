"""The trie: look-ups against a dictionary, starts and values that come back from their codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import lmzoo
from lmzoo.errors import CorruptFileError
from lmzoo.files import release_pages
from lmzoo.ngram.counts import ABSENT
from lmzoo.ngram.trie import Starts, from_keys, plain, token_type
from lmzoo.storage import from_bytes, to_bytes
from tests.lmzoo.ngram.test_laws import corpus_of, counted, lines, orders


def ngrams_of(train: list[str], order: int) -> list[set[tuple[int, ...]]]:
    """The n-grams of every order by plain Python: all symbols, then what stands in the documents, `<s>` before."""
    corpus = corpus_of(train)
    vocab = corpus.vocab
    seen = [{(v,) for v in range(len(vocab))}, *(set() for _ in range(order - 1))]
    for document in corpus.train:
        ids = [vocab.bos_id, *document.ids_L.tolist()]
        for k in range(2, order + 1):
            seen[k - 1] |= {tuple(ids[i : i + k]) for i in range(len(ids) - k + 1)}
    return seen


@given(lines, orders)
def test_every_ngram_is_found_and_no_other(train: list[str], order: int) -> None:
    trie = counted(corpus_of(train), order, "wb").trie
    nodes = {(v,): v for v in range(trie.n_symbols)}
    for k in range(1, order):
        histories = {words: node for words, node in nodes.items() if len(words) == k}
        asked = [(words, v) for words in histories for v in range(trie.n_symbols)]
        history_M, token_M = (
            (np.array(column) for column in zip(*((histories[w], v) for w, v in asked), strict=True))
            if asked
            else (np.zeros(0, np.int64), np.zeros(0, np.int64))
        )
        found = trie.find(k, history_M, token_M).tolist()
        nodes |= {(*words, v): node for (words, v), node in zip(asked, found, strict=True) if node != ABSENT}
    wanted = ngrams_of(train, order)
    for k in range(1, order + 1):
        assert {words for words in nodes if len(words) == k} == wanted[k - 1]
    assert sorted(nodes.values()) == list(range(trie.bounds[-1]))


@given(lines, orders)
def test_keys_and_tables_come_back(train: list[str], order: int) -> None:
    model = counted(corpus_of(train), order, "wb")
    keys, tables = model.tables
    back = from_keys(keys, tables, len(model.vocab))
    assert [k.tolist() for k in back.packed_keys()] == [k.tolist() for k in keys]
    for wanted, got in zip(tables, back.tables(), strict=True):
        assert got.logp_G.tolist() == wanted.logp_G.tolist()
        assert got.backoff_G.tolist() == wanted.backoff_G.tolist()


@given(st.integers(1, 5), st.lists(st.integers(0, 3), max_size=300), st.booleans())
def test_starts_are_running_sums(n_symbols: int, longer: list[int], is_large: bool) -> None:
    n_following = np.array([*([2] * n_symbols), *longer])
    if is_large:
        # more continuations within a block than two bytes can count
        n_following[-1] += 1 << 16
    starts = Starts.following([n_following[:n_symbols], n_following[n_symbols:]], n_symbols)
    wanted = n_symbols + np.concatenate(([0], np.cumsum(n_following)))
    assert starts.of(1, np.arange(n_symbols + 1)).tolist() == wanted[: n_symbols + 1].tolist()
    nodes = np.arange(n_symbols, len(wanted))
    assert starts.of(2, nodes).tolist() == wanted[n_symbols:].tolist()


@given(hnp.arrays(np.float64, st.sampled_from([0, 5, 9000]), elements=st.sampled_from([-np.inf, -1.5, -0.1, 0.0])))
def test_values_are_coded_without_loss(values_G) -> None:
    values = plain(values_G)
    lean = values.compact()
    assert len(lean) == len(values_G)
    assert lean.of(3, slice(None)).tolist() == values_G.tolist()
    assert (len(lean.codes_G) > 0) == (len(values_G) == 9000)


def test_values_that_all_differ_stay_as_they_are() -> None:
    values = plain(np.arange(9000.0))
    assert values.compact() is values


@pytest.mark.parametrize(("n_symbols", "wanted"), [(256, np.uint8), (257, np.uint16), (65_537, np.uint32)])
def test_the_smallest_type_that_holds_the_vocabulary(n_symbols, wanted) -> None:
    assert token_type(n_symbols) is wanted


def test_arrays_that_do_not_belong_together_are_refused(monkeypatch) -> None:
    model = counted(corpus_of(["abracadabra"]), 3, "wb")
    options, arrays = model.to_parts()
    for name in ("tokens", "logp", "backoff", "first", "within", "bases"):
        shorter = {**arrays, name: arrays[name][:-1]}
        monkeypatch.setattr(type(model), "to_parts", lambda self, shorter=shorter: (options, shorter))
        with pytest.raises(CorruptFileError, match="arrays of"):
            from_bytes(to_bytes(model), "m.lm")
    for bounds in ([0, 1], [0, 5, 3, 9], [1, 2, 3, 4]):
        changed = {**options, "bounds": bounds}
        monkeypatch.setattr(type(model), "to_parts", lambda self, changed=changed: (changed, arrays))
        with pytest.raises(CorruptFileError, match="does not describe a model"):
            from_bytes(to_bytes(model), "m.lm")


def test_a_large_file_is_mapped_and_answers_as_before(tmp_path) -> None:
    corpus = lmzoo.load_corpus("kjv", tokens="word")
    model = lmzoo.train("trigram", corpus)
    path = lmzoo.save(model, tmp_path / "m.lm")
    assert path.stat().st_size > 1 << 20
    for verify in (True, False):
        back = lmzoo.load(path, verify=verify)
        assert not back.trie.tokens_G.flags.owndata
        assert not back.trie.logp.plain_G.flags.writeable
        assert lmzoo.evaluate(back, corpus.test) == lmzoo.evaluate(model, corpus.test)
        # what was loaded can be written again, over its own file too
        assert lmzoo.save(back, path).read_bytes() == path.read_bytes()


def test_without_the_checksum_a_file_that_was_cut_is_still_noticed(tmp_path) -> None:
    path = lmzoo.save(lmzoo.train("trigram", lmzoo.load_corpus("genesis", tokens="word")), tmp_path / "m.lm")
    data = path.read_bytes()
    for length in (len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(CorruptFileError, match="cut short"):
            lmzoo.load(path, verify=False)


def test_pages_of_a_mapped_file_are_let_go_and_come_back(tmp_path) -> None:
    path = tmp_path / "numbers"
    np.arange(1 << 20).tofile(path)
    mapped = np.memmap(path, np.int64, "r")
    total = int(mapped.sum())
    before = _resident_of(path)
    release_pages(mapped[5:])
    assert _resident_of(path) < before
    assert int(mapped.sum()) == total
    # what was changed in memory alone is never thrown away
    changed = np.memmap(path, np.int64, "c")
    changed[0] = 7
    release_pages(changed)
    assert changed[0] == 7
    release_pages(np.zeros(3))


def _resident_of(path) -> int:
    """KiB of the file that are in this process's memory."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    starts = [i for i, line in enumerate(lines) if line.endswith(str(path))]
    return sum(int(next(line for line in lines[i:] if line.startswith("Rss:")).split()[1]) for i in starts)
