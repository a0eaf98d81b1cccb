"""Files that are replaced whole: what they leave, and what an error calls them."""

from __future__ import annotations

import errno
import os

import pytest

from lmzoo.errors import StorageError
from lmzoo.files import remove_leftovers, replacing, require_writable


def test_what_the_system_refuses_names_the_file_that_was_to_be_written(tmp_path):
    with pytest.raises(FileNotFoundError) as raised, replacing(tmp_path / "gone" / "report.md"):
        pass
    assert raised.value.filename == str(tmp_path / "gone" / "report.md")


def test_a_full_disk_does_too_and_leaves_nothing(tmp_path):
    with pytest.raises(OSError, match="No space") as raised, replacing(tmp_path / "report.md"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(tmp_path / "report.md"))
    assert list(tmp_path.iterdir()) == []


def test_what_is_refused_of_another_file_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError) as raised, replacing(tmp_path / "report.md"):
        (tmp_path / "other").read_bytes()
    assert raised.value.filename == str(tmp_path / "other")


@pytest.mark.skipif(os.name == "nt", reason="links take rights there")
def test_links_in_a_circle_are_an_error_of_the_system_and_stay(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "report.md").symlink_to("loop")
    for name in ("loop", "report.md", "loop/inner"):
        with pytest.raises(OSError, match=os.strerror(errno.ELOOP)), replacing(tmp_path / name):
            pass
        with pytest.raises(StorageError, match="cannot write"):
            require_writable(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["loop", "report.md"]


@pytest.mark.skipif(os.name == "nt", reason="links take rights there")
def test_a_link_to_what_is_not_there_yet_is_written_through(tmp_path):
    (tmp_path / "link").symlink_to("target")
    with replacing(tmp_path / "link") as file:
        file.write(b"text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"text"


def test_only_leftovers_go_and_where_others_write_only_old_ones(tmp_path):
    old, new, other = (tmp_path / name for name in (f".{'0' * 16}.tmp", f".{'1' * 16}.tmp", ".mine.tmp"))
    for path, moment in ((old, 100), (new, 300), (other, 100)):
        path.write_bytes(b"")
        os.utime(path, (moment, moment))
    remove_leftovers(tmp_path, before_s=200.0)
    assert sorted(tmp_path.iterdir()) == sorted([new, other])
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == [other]
