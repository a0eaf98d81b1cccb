"""`train` on any text: packed, in folders, by patterns, from a pipe; and what becomes of a model without a place."""

from __future__ import annotations

import errno
import gzip
import io
import os
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from rich.progress import Progress

import lmzoo
from lmzoo.cli import progress, run
from lmzoo.decoding import ReplacedWarning
from lmzoo.inputs import watched_by

pytestmark = pytest.mark.plain

A, B = "the cat sat on the mat\nthe dog sat\n" * 10, "a dog ate the caf\u00e9 of it\n" * 15
SPEC = "ngram:order=3,smoothing=wb"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that is the current one, with both texts packed and not."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text(A, encoding="utf-8")
    (tmp_path / "texts" / "b.txt").write_bytes(gzip.compress(B.encode()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def typed(monkeypatch, capsys):
    """Run `train`, standard input given: its status and what it tells."""

    def call(*arguments, stdin=b"", output="m.lm"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        status = run(["train", SPEC, *map(str, arguments), "-o", output])
        return status, capsys.readouterr().err

    return call


def model_of(folder, name="m.lm"):
    return (folder / name).read_bytes()


class TestOneTextByManyNames:
    @pytest.mark.parametrize("options", [[], ["--all"]])
    @pytest.mark.parametrize("tokens", ["char", "word"])
    @pytest.mark.parametrize(
        "names", [["texts"], ["texts/*.txt"], ["texts/a.txt", "texts/b.txt"], ["-", "texts/b.txt"]]
    )
    def test_the_model_is_that_of_its_files(self, folder, typed, names, tokens, options):
        assert typed(*names, "--tokens", tokens, *options, stdin=A.encode())[0] == 0
        if options:
            wanted = lmzoo.train_ngram([A, B], order=3, smoothing="wb", tokens=tokens)
        else:
            wanted = lmzoo.train(SPEC, lmzoo.corpus_from_texts({"whole": lambda: [A, B]}, tokens=tokens))
        assert model_of(folder) == lmzoo.save(wanted, folder / "wanted.lm").read_bytes()

    @pytest.mark.parametrize("options", [[], ["--all"]])
    def test_a_named_pipe_is_read_to_its_end(self, folder, typed, options):
        os.mkfifo(folder / "pipe")
        writer = threading.Thread(target=(folder / "pipe").write_bytes, args=(A.encode(),))
        writer.start()
        assert typed("pipe", *options)[0] == 0
        writer.join()
        of_pipe = model_of(folder)
        assert typed("texts/a.txt", *options)[0] == 0
        assert model_of(folder) == of_pipe

    def test_packed_and_from_a_pipe(self, folder, typed):
        assert typed("-", "--all", stdin=gzip.compress(B.encode()))[0] == 0
        of_pipe = model_of(folder)
        assert typed("texts/b.txt", "--all")[0] == 0
        assert model_of(folder) == of_pipe

    def test_a_file_that_is_called_like_a_corpus(self, folder, typed):
        (folder / "genesis").write_text(A)
        assert typed("genesis", "--all")[0] == 0
        of_it = model_of(folder)
        assert typed("texts/a.txt", "--all")[0] == 0
        assert model_of(folder) == of_it

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["-", "-"], "standard input (-) is named twice, and can be read only once"),
            (["-", "--all", "--valid", "-"], "standard input (-) is named twice"),
            (["news-*.txt"], "no file matches 'news-*.txt'"),
            (["nowhere"], "no file 'nowhere'; for a corpus by name write --corpus nowhere"),
            ([""], "name of a text is empty"),
            (["empty"], "no file in the folder empty"),
            (["-"], "of stdin has 0 tokens, at least 1 is needed; it is empty"),
            (["-", "--all"], "the source has 0 tokens"),
            (["-", "--all", "--tokens", "bpe:300"], "it is read twice; give files"),
            (["texts", "--encoding", "utf9"], "no encoding 'utf9'"),
            (["texts", "--invalid", "drop"], "There are: error, replace"),
            (["--corpus", "genesis", "--invalid", "replace"], "texts of one's own; genesis is read as it is"),
        ],
    )
    def test_what_is_no_text_is_one_line(self, folder, typed, arguments, message):
        (folder / "empty").mkdir()
        status, err = typed(*arguments)
        assert (status, err.count("\n")) == (2, 1)
        assert message in err

    def test_a_model_is_not_written_over_a_text_of_a_folder(self, folder, typed):
        status, err = typed("texts", output="texts/a.txt")
        assert status == 2
        assert "texts/a.txt is read and would be overwritten" in err
        assert (folder / "texts" / "a.txt").read_text() == A


class TestWhatIsTold:
    @pytest.mark.filterwarnings("default::lmzoo.decoding.ReplacedWarning")
    @pytest.mark.parametrize(("options", "how"), [([], "note: "), (["--all"], "warning: ")])
    def test_replacements(self, folder, typed, options, how):
        (folder / "latin1.txt").write_bytes(B.encode("latin-1"))
        status, err = typed("latin1.txt", *options, "--invalid", "replace")
        assert status == 0
        assert f"{how}15 invalid sequences of bytes were replaced by U+FFFD\n" in err
        status, err = typed("latin1.txt", *options, "--encoding", "latin-1")
        assert status == 0
        assert "invalid" not in err

    def test_whoever_calls_the_library_is_warned(self, folder):
        Path("latin1.txt").write_bytes(B.encode("latin-1"))
        # in the validation text too
        with pytest.warns(ReplacedWarning, match=r"^30 invalid sequences of bytes were replaced by U\+FFFD"):
            lmzoo.train_ngram(
                "latin1.txt", tokens="char", order=2, smoothing="wb", valid=Path("latin1.txt"), invalid="replace"
            )

    def test_normal_forms(self, folder, typed):
        status, err = typed("texts", "--normalize", "nfd+lower")
        assert status == 0
        assert "note: 15 characters were changed by nfd+lower\n" in err
        assert lmzoo.load("m.lm").vocab.normalizer == "nfd+lower"
        assert "changed" not in typed("texts", "--normalize", "nfc")[1]


class TestProgress:
    def shown(self, monkeypatch, files, *, is_terminal):
        """How many bytes were told of, of how many, or None where nothing was shown."""
        told = []
        monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
        monkeypatch.setattr(Progress, "add_task", lambda self, _, total: told.append(total))
        monkeypatch.setattr(Progress, "advance", lambda self, task, n_bytes: told.append(n_bytes))
        with progress.reading_shown(lmzoo.inputs.files_of(files)):
            list(lmzoo.reading.read_texts(files))
        return told

    def test_bytes_read_of_the_size_on_a_terminal_only(self, folder, monkeypatch):
        monkeypatch.setattr(progress, "_LEAST_BYTES", 100)
        size = (folder / "texts" / "a.txt").stat().st_size
        assert self.shown(monkeypatch, ["texts/a.txt"], is_terminal=True) == [size, size]
        assert self.shown(monkeypatch, ["texts/a.txt"], is_terminal=False) == []

    def test_of_a_pipe_the_size_is_not_known(self, folder, monkeypatch):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(A.encode())))
        assert self.shown(monkeypatch, ["-"], is_terminal=True) == [None, len(A)]

    def test_a_small_text_shows_nothing(self, folder, monkeypatch):
        assert self.shown(monkeypatch, ["texts"], is_terminal=True) == []

    def test_nobody_is_told_afterwards(self, folder):
        told = []
        with watched_by(told.append):
            pass
        lmzoo.reading.read_text("texts/a.txt")
        assert told == []


class TestAModelWithoutAPlace:
    @pytest.fixture
    def full(self, monkeypatch, tmp_path):
        """The disk is full for so many writings of files."""
        (tmp_path / "temporary").mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))

        def for_writings(n):
            left = [n]
            sync = os.fsync

            def refuse(descriptor):
                left[0] -= 1
                if left[0] >= 0:
                    raise OSError(errno.ENOSPC, "No space left on device")
                sync(descriptor)

            monkeypatch.setattr(os, "fsync", refuse)

        return for_writings

    @pytest.mark.parametrize("options", [[], ["--all"]])
    def test_it_is_kept_in_the_folder_of_temporary_files(self, folder, typed, full, options):
        assert typed("texts", *options, output="wanted.lm")[0] == 0
        full(1)
        status, err = typed("texts", *options)
        (kept,) = (folder / "temporary").iterdir()
        assert status == 2
        assert f"error: cannot write m.lm: No space left on device; the model is kept in {kept}: move it once" in err
        assert kept.read_bytes() == model_of(folder, "wanted.lm")
        assert not (folder / "m.lm").exists()
        assert kept.name.startswith("m-")

    def test_where_nothing_can_be_written_that_is_said(self, folder, typed, full):
        full(9)
        status, err = typed("texts", output="a.lm")
        assert status == 2
        assert f"nor could it be kept in {folder / 'temporary'}: the model is lost" in err
        assert list((folder / "temporary").iterdir()) == []

    def test_beside_the_checkpoint_first(self, folder, full):
        from lmzoo.cli.keeping import save_or_keep

        model = lmzoo.train_ngram([A], order=2, smoothing="wb")
        (folder / "checkpoints").mkdir()
        full(1)
        with pytest.raises(Exception, match=rf"the model is kept in {Path('checkpoints')}/m-[0-9a-f]{{8}}\.lm"):
            save_or_keep(model, "m.lm", "checkpoints/c.ckpt", None)
        (kept,) = (folder / "checkpoints").iterdir()
        assert kept.read_bytes() == lmzoo.save(model, folder / "wanted.lm").read_bytes()
