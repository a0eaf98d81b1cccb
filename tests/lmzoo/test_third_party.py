"""Models of installed packages: the tutorial's, and what is broken in one way or another."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import lmzoo
from bench.describe import resolve_models
from bench.planned import StaleError, require_same_packages
from lmzoo import registry
from lmzoo.errors import MissingLibraryError, NewerFileError
from tests.bench.stubs import make_trial

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "your_model"

# the tutorial's model with a fault each
BROKEN = """
import interpolated
from lmzoo.registry import ModelEntry

class Leaks(interpolated.Model):
    kind = "of no file"

    def next_logprobs(self, state):
        return super().next_logprobs(state) - 0.1

class LeakingTrainer(interpolated.Trainer):
    def steps(self, *arguments):
        yield from super().steps(*arguments)
        self.model = Leaks(self.vocab, self.model.arrays)

class RaisingTrainer(interpolated.Trainer):
    def steps(self, *arguments):
        raise ZeroDivisionError("nothing was counted")

class WirelessTrainer(interpolated.Trainer):
    def steps(self, *arguments):
        raise BrokenPipeError("no wire")

def _entry(name, trainer):
    trainer = f"broken_models:{trainer}"
    return ModelEntry(name=name, description="", config="interpolated:Config", trainer=trainer, family="counting")

LEAKS = _entry("leaks", "LeakingTrainer")
RAISES = _entry("raises", "RaisingTrainer")
WIRELESS = _entry("no-wire", "WirelessTrainer")
TEXT = "no entry"
OTHER = _entry("another", "LeakingTrainer")
"""


def install(folder: Path, package: str, points: dict[str, str]) -> None:
    """What pip leaves behind: how `importlib.metadata` finds the entry points of a package."""
    # its name ends at the first hyphen
    made = folder / f"{package.replace('-', '_')}-0.1.0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (made / "entry_points.txt").write_text(f"[{registry.ENTRY_POINTS}]\n{lines}")


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder in which the tutorial's package and a broken one are installed, here and for new processes."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    shutil.copy(EXAMPLE / "interpolated.py", folder)
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    install(folder, project["name"], project["entry-points"][registry.ENTRY_POINTS])
    (folder / "broken_models.py").write_text(BROKEN)
    faults = {name: f"broken_models:{name.upper()}" for name in ("leaks", "raises", "text", "other")}
    (folder / "leaves.py").write_text("import sys\nsys.exit(7)\n")
    unloadable = {"absent": "no_such_module:ENTRY", "leaves": "leaves:ENTRY"}
    faults["no-wire"] = "broken_models:WIRELESS"
    install(folder, "broken", faults | unloadable | {"trigram": "broken_models:LEAKS"})
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(folder), str(ROOT))))
    # a test may have put another one in its place by then
    entries = registry.all_entries
    entries.cache_clear()
    yield folder
    entries.cache_clear()
    for name in ("interpolated", "broken_models"):
        sys.modules.pop(name, None)


def rows(text):
    return list(csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE))


class TestTheTutorial:
    def test_it_shows_the_files_of_the_example(self):
        page = (ROOT / "docs" / "your-model.md").read_text(encoding="utf-8")
        shown = re.findall(r"^```text\n# ([\w.]+)\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
        assert dict(shown) == {
            name: (EXAMPLE / name).read_text(encoding="utf-8")
            for name in ("interpolated.py", "pyproject.toml", "test_interpolated.py")
        }

    def test_its_own_tests_pass(self, packages):
        spec = importlib.util.spec_from_file_location("test_interpolated", EXAMPLE / "test_interpolated.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        tests = [value for name, value in vars(module).items() if name.startswith("test_")]
        assert len(tests) == 2
        for test in tests:
            test()

    @pytest.mark.whole
    def test_it_passes_check_as_a_command_and_as_a_file(self, packages, typed, tmp_path):
        status, out, err = typed("check", "interpolated:weight=0.6", "--json-lines")
        results = [json.loads(line) for line in out.splitlines()]
        assert status == 0
        assert {r["check"] for r in results if r["status"] == "skipped"} == {
            "probability.all_logprobs_agree",
            "state.classes_of_contexts",
        }
        assert "failed" not in err
        assert typed("train", "interpolated", "--corpus", "genesis", "-o", tmp_path / "i.lm")[0] == 0
        assert typed("check", tmp_path / "i.lm")[0] == 0

    def test_its_file_is_read_where_the_package_is(self, packages, tmp_path, monkeypatch):
        corpus = lmzoo.load_corpus("genesis", tokens="word")
        path = lmzoo.save(lmzoo.train("interpolated", corpus), tmp_path / "i.lm")
        wanted = lmzoo.evaluate(lmzoo.train("interpolated", corpus), corpus.test)
        assert lmzoo.evaluate(lmzoo.load(path), corpus.test) == wanted
        # between those of its parts alone, which bound it from above
        assert wanted.perplexity < lmzoo.evaluate(lmzoo.train("unigram", corpus), corpus.test).perplexity
        monkeypatch.setattr(registry, "all_entries", lambda: registry.MODELS)
        with pytest.raises(
            NewerFileError, match="of kind 'interpolated', unknown to this version; upgrade lmzoo, or install"
        ):
            lmzoo.load(path)


class TestBroken:
    def test_each_is_a_row_with_its_reason_and_breaks_nothing_else(self, packages, typed):
        status, out, err = typed("models")
        assert (status, err) == (0, "")
        listed = {row["name"]: row for row in rows(out)}
        assert listed["interpolated"]["not here because"] == ""
        assert "No module named 'no_such_module'" in listed["absent"]["not here because"]
        assert "is no ModelEntry" in listed["text"]["not here because"]
        assert "is named 'another', not 'other'" in listed["other"]["not here because"]
        assert "SystemExit: 7" in listed["leaves"]["not here because"]
        assert (listed["interpolated"]["package"], listed["absent"]["package"]) == ("lmzoo-interpolated", "broken")
        assert listed["trigram"]["package"] == ""
        # a name of lmzoo's own is never replaced
        assert listed["trigram"]["description"] == registry.MODELS["trigram"].description
        with pytest.raises(
            MissingLibraryError, match="absent: the package that adds it is installed but cannot be loaded"
        ):
            lmzoo.train("absent", lmzoo.load_corpus("genesis"))
        assert typed("check", "absent")[0] == 2

    @pytest.mark.parametrize("name", ["raises", "no-wire"])
    def test_to_train_one_that_raises_is_one_line(self, packages, typed, tmp_path, monkeypatch, name):
        (tmp_path / "text").write_text("a cat sat\n" * 20)
        arguments = ("train", name, tmp_path / "text", "-o", tmp_path / "m.lm")
        status, out, err = typed(*arguments)
        assert (status, out) == (2, "")
        assert "Traceback" not in err
        wanted = {
            "raises": "error: ZeroDivisionError: nothing was counted (",
            # never taken for a reader who left
            "no-wire": "error: no-wire cannot be trained: BrokenPipeError: no wire",
        }
        assert err.splitlines()[-1].startswith(wanted[name])
        assert not (tmp_path / "m.lm").exists()
        monkeypatch.setenv("LMZOO_TRACEBACK", "1")
        shown = typed("train", "raises", *arguments[2:])[2]
        assert 'raise ZeroDivisionError("nothing was counted")' in shown
        assert shown.splitlines()[-1].startswith("error: ZeroDivisionError")

    def test_check_says_what_is_wrong(self, packages, typed):
        status, out, _ = typed("check", "leaks")
        assert status == 1
        failed = {row["check"] for row in rows(out) if row["status"] == "failed"}
        assert {"probability.sums_to_one", "probability.two_ways_agree"} <= failed
        status, out, err = typed("check", "raises")
        assert status == 1
        assert [(r["check"], r["status"], r["message"]) for r in rows(out)] == [
            ("training.ends", "failed", "ZeroDivisionError: nothing was counted")
        ]
        assert err == "1 failed\n"

    @pytest.mark.slow
    def test_all_are_ranked_or_told_of_by_the_harness(self, packages, tmp_path):
        models = "bigram,interpolated,leaks,raises"
        out = tmp_path / "run"
        options = ["--models", models, "--quick", "--out", str(out), "--threads", "1"]
        done = subprocess.run(
            [sys.executable, "-m", "bench.run", *options], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1, done.stderr
        with (out / "tables" / "summary.csv").open(encoding="utf-8") as file:
            table = {row["model"]: row for row in csv.DictReader(file)}
        assert {name: row["status"] for name, row in table.items()} == {
            "bigram": "ok",
            "interpolated": "ok",
            "leaks": "invalid",
            "raises": "failed",
        }
        assert float(table["bigram"]["test_perplexity"]) < float(table["interpolated"]["test_perplexity"])
        assert "nothing was counted" in table["raises"]["reason"]


class TestTheirCode:
    """What a record holds of the code that a package brings: whatever decides a result, and no place."""

    def code(self, spec="interpolated"):
        return registry.recorded_options(spec).get(registry.PACKAGES_SHA256)

    def test_other_code_is_another_hash_and_the_same_again_the_same(self, packages):
        before = self.code()
        assert re.fullmatch("[0-9a-f]{64}", before)
        assert self.code("interpolated:weight=0.9") == before
        source = packages / "interpolated.py"
        kept = source.read_bytes()
        source.write_bytes(kept + b"# one line more\n")
        assert self.code() != before
        source.write_bytes(kept)
        assert self.code() == before

    def test_models_of_lmzoo_have_none_and_a_mixture_has_those_of_its_parts(self, packages):
        assert self.code("kn5") is None
        assert self.code("mixture:kn5+bigram") is None
        of_one = self.code("mixture:kn5+interpolated")
        assert of_one == self.code()
        assert self.code("mixture:interpolated+leaks") not in (None, of_one, self.code("leaks"))

    def test_a_module_that_an_entry_borrows_from_counts(self, packages):
        # its config is the tutorial's
        before = self.code("leaks")
        (packages / "interpolated.py").write_bytes((packages / "interpolated.py").read_bytes() + b"#\n")
        assert self.code("leaks") != before

    @pytest.mark.parametrize("told_by", ["top_level.txt", "RECORD"])
    def test_a_module_that_the_package_installs_beside_counts(self, packages, told_by):
        (packages / "beside.py").write_text("WEIGHT = 1\n")
        told = {"top_level.txt": "beside\n", "RECORD": "beside.py,,\n../../bin/tool.py,,\nbroken-0.1.0.dist-info/X,,\n"}
        (packages / "broken-0.1.0.dist-info" / told_by).write_text(told[told_by])
        before = self.code("leaks")
        (packages / "beside.py").write_text("WEIGHT = 2\n")
        assert self.code("leaks") != before

    def test_of_a_package_every_file_counts_that_is_not_hidden_or_compiled(self, packages, monkeypatch):
        folder = packages / "foldered"
        (folder / "inner" / "__pycache__").mkdir(parents=True)
        for name in ("__init__.py", "inner/__init__.py"):
            (folder / name).write_text("")
        (folder / "inner" / "entry.py").write_text(
            "import interpolated, dataclasses\n"
            "class Config(interpolated.Config): pass\n"
            "ENTRY = dataclasses.replace(interpolated.ENTRY, name='foldered', config='foldered.inner.entry:Config')\n"
        )
        install(packages, "foldered", {"foldered": "foldered.inner.entry:ENTRY"})
        registry.all_entries.cache_clear()
        seen = [self.code("foldered")]
        for name in ("table.json", "inner/more.py", "inner/.notes", "inner/__pycache__/more.pyc"):
            (folder / name).write_text("1")
            seen.append(self.code("foldered"))
        assert len(set(seen[:3])) == 3
        assert set(seen[2:]) == {seen[2]}
        for name in ("foldered", "foldered.inner", "foldered.inner.entry"):
            monkeypatch.delitem(sys.modules, name, raising=False)

    def test_a_trial_of_other_code_than_the_plans_fails_with_the_reason(self, packages):
        (facts,), _ = resolve_models("interpolated")
        trial = make_trial("interpolated", options=facts.options)
        require_same_packages(trial)
        require_same_packages(make_trial("kn5"))
        (packages / "interpolated.py").write_bytes((packages / "interpolated.py").read_bytes() + b"#\n")
        with pytest.raises(
            StaleError, match=r"package that interpolated comes from \(sha256 \w{12}…\) is not the run's"
        ):
            require_same_packages(trial)
        assert resolve_models("interpolated")[0][0].options != facts.options
