"""Model files: whole or refused, and never executed."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmzoo import registry, storage
from lmzoo.errors import CorruptFileError, ForeignFileError, NewerFileError, StorageError
from lmzoo.vocab import build_vocab

from .toy import FixedModel, UniformModel

pytestmark = pytest.mark.plain

VOCAB = build_vocab(["a <unk> é", "\\<s>"], tokenizer="word", has_eos=True)
MODEL = FixedModel(VOCAB, {"a": 0.5, "é": 0.5})


@pytest.fixture(autouse=True)
def _toy_kind(monkeypatch):
    monkeypatch.setitem(registry.STORED_KINDS, "toy", f"{FixedModel.__module__}:FixedModel")


def header_of(data):
    end = 16 + int.from_bytes(data[8:16], "little")
    return json.loads(data[16:end]), end


def with_header(data, header, payload=None):
    """A file with another header (a value or bytes) and a right checksum."""
    end = header_of(data)[1]
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = data[:8] + len(text).to_bytes(8, "little") + text + (data[end:-32] if payload is None else payload)
    return body + hashlib.sha256(body).digest()


class TestRoundTrip:
    def test_a_model_comes_back(self, tmp_path):
        path = storage.save(MODEL, tmp_path / "m.lm")
        back = storage.load(path)
        assert back.vocab == VOCAB
        assert back.vocab.fingerprint == VOCAB.fingerprint
        assert back.vocab.spelling == VOCAB.spelling
        assert back.probabilities == MODEL.probabilities
        assert back.logprobs_V.tolist() == MODEL.logprobs_V.tolist()
        assert back.to_parts()[1]["empty"].shape == (0, 3)

    def test_the_same_model_is_the_same_bytes(self):
        assert storage.to_bytes(MODEL) == storage.to_bytes(storage.from_bytes(storage.to_bytes(MODEL), "x"))

    @pytest.mark.parametrize("dtype", ["u1", "i1", "?", ">i4", "<i8", "f2", ">f4", "f8"])
    def test_arrays_keep_type_shape_and_values(self, dtype, monkeypatch):
        array = np.arange(6).reshape(2, 3).astype(dtype)[:, ::2]
        monkeypatch.setattr(FixedModel, "to_parts", lambda self: ({"probabilities": {}}, {"logprobs_V": array}))
        back = storage.from_bytes(storage.to_bytes(MODEL), "x").logprobs_V
        assert back.tolist() == array.tolist()
        assert back.dtype == array.dtype.newbyteorder("<")

    def test_arrays_are_aligned(self):
        data = storage.to_bytes(MODEL)
        header, end = header_of(data)
        assert end % 64 == 0
        assert all(entry["offset"] % 64 == 0 for entry in header["arrays"])


class TestSaving:
    def test_an_existing_file_is_replaced_whole_and_nothing_is_left_behind(self, tmp_path):
        path = tmp_path / "m.lm"
        path.write_bytes(b"old")
        storage.save(MODEL, path)
        assert path.read_bytes() == storage.to_bytes(MODEL)
        assert os.listdir(tmp_path) == ["m.lm"]  # noqa: PTH208

    def test_a_failed_write_leaves_the_old_file(self, tmp_path, monkeypatch):
        path = tmp_path / "m.lm"
        path.write_bytes(b"old")

        def full(self, target):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", full)
        with pytest.raises(StorageError, match=r"cannot write .*m\.lm: No space left on device"):
            storage.save(MODEL, path)
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["m.lm"]  # noqa: PTH208

    def test_others_may_read_it_as_the_umask_says(self, tmp_path):
        umask = os.umask(0o022)
        try:
            path = storage.save(MODEL, tmp_path / "m.lm")
        finally:
            os.umask(umask)
        assert stat.S_IMODE(path.stat().st_mode) == 0o644

    def test_a_link_is_followed_and_who_may_read_stays_as_it_was(self, tmp_path):
        (tmp_path / "m.lm").write_bytes(b"old")
        (tmp_path / "m.lm").chmod(0o600)
        (tmp_path / "link").symlink_to(tmp_path / "m.lm")
        storage.save(MODEL, tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "m.lm").read_bytes() == storage.to_bytes(MODEL)
        assert stat.S_IMODE((tmp_path / "m.lm").stat().st_mode) == 0o600

    def test_a_place_that_cannot_be_written_is_named(self, tmp_path):
        with pytest.raises(StorageError, match="No such file or directory"):
            storage.save(MODEL, tmp_path / "none" / "m.lm")
        with pytest.raises(StorageError, match="is no regular file"):
            storage.save(MODEL, tmp_path)
        with pytest.raises(StorageError, match="cannot write"):
            storage.save(MODEL, tmp_path / "a\0b")

    def test_what_is_no_regular_file_is_not_replaced(self, tmp_path):
        # a pipe of its own: were the guard broken, a real device would be lost to the whole machine
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        with pytest.raises(StorageError, match="pipe: it is there and is no regular file"):
            storage.save(MODEL, pipe)
        assert stat.S_ISFIFO(pipe.stat().st_mode)

    def test_what_no_file_can_name_is_not_saved(self, tmp_path, monkeypatch):
        with pytest.raises(StorageError, match="UniformModel cannot be saved"):
            storage.save(UniformModel(VOCAB), tmp_path / "m.lm")
        monkeypatch.setattr(FixedModel, "to_parts", lambda self: ({}, {"names": np.array(["x"])}))
        with pytest.raises(StorageError, match="array names of toy has type <U1"):
            storage.save(MODEL, tmp_path / "m.lm")


class TestDamage:
    def test_cut_short_at_every_byte(self):
        data = storage.to_bytes(MODEL)
        for length in range(1, len(data)):
            with pytest.raises(CorruptFileError, match=r"m.lm is"):
                storage.from_bytes(data[:length], "m.lm")

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.data())
    def test_any_altered_byte_is_noticed(self, data):
        whole = bytearray(storage.to_bytes(MODEL))
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place] ^= data.draw(st.integers(1, 255))
        with pytest.raises(StorageError):
            storage.from_bytes(bytes(whole), "m.lm")

    def test_a_count_altered_in_the_header_is_noticed(self):
        data = storage.to_bytes(MODEL)
        assert data.count(b'"n_ends": 4') == 1
        with pytest.raises(CorruptFileError, match="checksum"):
            storage.from_bytes(data.replace(b'"n_ends": 4', b'"n_ends": 5'), "m.lm")

    def test_more_than_a_model_is_noticed(self):
        with pytest.raises(CorruptFileError, match="checksum"):
            storage.from_bytes(storage.to_bytes(MODEL) + b"\0", "m.lm")

    @pytest.mark.parametrize(
        "change",
        [
            {"arrays": []},
            {"arrays": None},
            {"arrays": [{"name": "logprobs_V", "dtype": "O", "shape": [1], "offset": 0}]},
            {"arrays": [{"name": "logprobs_V", "dtype": "<f8", "shape": [10**6], "offset": 0}]},
            {"arrays": [{"name": "logprobs_V", "dtype": "<f8", "shape": [-1], "offset": 0}]},
            {"arrays": [{"name": "logprobs_V", "dtype": "<f8", "shape": [1], "offset": -8}]},
            {"arrays": [["logprobs_V"]]},
            {"vocab": {}},
            {"vocab": []},
            {"vocab": None},
            {"options": None},
            {"options": {}},
        ],
    )
    def test_a_header_that_describes_no_model_is_refused(self, change):
        data = storage.to_bytes(MODEL)
        with pytest.raises(CorruptFileError, match="does not describe a model"):
            storage.from_bytes(with_header(data, {**header_of(data)[0], **change}), "m.lm")

    @pytest.mark.parametrize("text", [b"", b"{", b"[]", b"3", b"\xff", b"[" * 100_000, b"{}"])
    def test_a_header_that_cannot_be_read_is_refused(self, text):
        with pytest.raises(CorruptFileError, match="its header cannot be read"):
            storage.from_bytes(with_header(storage.to_bytes(MODEL), text), "m.lm")


class TestStrangers:
    @pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", b"\\data\\\nngram 1=2\n", b"\0" * 100])
    def test_another_kind_of_file(self, content, tmp_path):
        path = tmp_path / "m.lm"
        path.write_bytes(content)
        with pytest.raises(ForeignFileError, match=r"m\.lm is not a model file of lmzoo"):
            storage.load(path)

    def test_an_older_format(self):
        now, before = (b'"format": %d' % number for number in (storage.FORMAT, storage.FORMAT - 1))
        data = storage.to_bytes(MODEL).replace(now, before, 1)
        with pytest.raises(StorageError, match=r"no longer read.*train the model again"):
            storage.from_bytes(data, "m.lm")

    def test_a_newer_format_and_a_newer_kind(self):
        data = storage.to_bytes(MODEL)
        header, _ = header_of(data)
        for change, message in (
            ({"format": 4}, "has format 4, this version reads format 3"),
            ({"kind": "x"}, "kind 'x'"),
        ):
            with pytest.raises(NewerFileError, match=message):
                storage.from_bytes(with_header(data, {**header, **change}), "m.lm")

    def test_a_missing_file_and_a_folder(self, tmp_path):
        for path in (tmp_path / "none.lm", tmp_path, tmp_path / "a\0b"):
            with pytest.raises(StorageError, match="cannot read"):
                storage.load(path)

    def test_nothing_is_executed(self, tmp_path):
        class Bomb:
            def __reduce__(self):
                return Path.touch, (tmp_path / "exploded",)

        bomb = pickle.dumps(Bomb())
        path = tmp_path / "m.lm"
        path.write_bytes(bomb)
        with pytest.raises(ForeignFileError):
            storage.load(path)
        data = storage.to_bytes(MODEL)
        header, _ = header_of(data)
        path.write_bytes(with_header(data, {**header, "kind": "os:system"}))
        with pytest.raises(NewerFileError):
            storage.load(path)
        pickled = [{"name": "logprobs_V", "dtype": "|O", "shape": [1], "offset": 0}]
        path.write_bytes(with_header(data, {**header, "arrays": pickled}, payload=bomb))
        with pytest.raises(CorruptFileError):
            storage.load(path)
        assert not (tmp_path / "exploded").exists()
        pickle.loads(bomb)  # the bomb is a live one
        assert (tmp_path / "exploded").exists()
