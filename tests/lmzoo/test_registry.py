"""The registry: names to models, nothing loaded before it is asked for."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from lmzoo import registry
from lmzoo.errors import MissingLibraryError, OptionValueError, SpecError, UnknownModelError, UnknownOptionError
from lmzoo.registry import (
    MODELS,
    ModelEntry,
    available_models,
    create_coder,
    create_trainer,
    find_entry,
    is_read,
    read_model,
    resolve_config,
)
from lmzoo.spec import parse_spec
from lmzoo.vocab import build_vocab

VOCAB = build_vocab(["ab"])


@pytest.fixture(autouse=True)
def _fresh_entries():
    registry.all_entries.cache_clear()
    yield
    registry.all_entries.cache_clear()


class TestNames:
    def test_a_near_miss_is_answered_with_where_to_look(self):
        with pytest.raises(
            UnknownModelError,
            match=r"no model 'lstn-scratch'\. Did you mean 'lstm-scratch'\? List them with: python -m lmzoo models",
        ):
            find_entry("lstn-scratch")

    @pytest.mark.parametrize("name", sorted(MODELS))
    def test_every_entry_is_called_by_its_name_and_described(self, name):
        assert MODELS[name].name == name
        assert MODELS[name].description

    def test_available_models_says_why_not_here(self, monkeypatch):
        lacking = ModelEntry(
            name="lacking",
            description="d",
            config="x:y",
            trainer="x:y",
            family="neural",
            requires={"no_such_lib": "torch"},
        )
        monkeypatch.setattr(registry, "MODELS", {**MODELS, "lacking": lacking})
        assert available_models()["lacking"] == (
            "d (not here: no_such_lib is not installed: python -m pip install 'lmzoo[torch]')"
        )
        assert available_models()["trigram"] == MODELS["trigram"].description
        monkeypatch.setattr(registry, "resolve_config", lambda spec: None)
        with pytest.raises(MissingLibraryError, match="lacking: no_such_lib is not installed"):
            create_trainer("lacking", VOCAB)

    def test_listing_loads_no_model(self):
        heavy = ("lmzoo.ngram", "lmzoo.neural", "lmzoo.adapters")
        code = f"import sys, lmzoo; lmzoo.available_models(); print([m for m in sys.modules if m.startswith({heavy})])"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"


class TestThirdParties:
    def test_an_entry_point_adds_a_model_and_replaces_none(self, monkeypatch):
        class Point:
            def __init__(self, name):
                self.name = name

            def load(self):
                return ModelEntry(name=self.name, description="theirs", config="", trainer="", family="counting")

        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [Point("theirs"), Point("trigram")])
        assert find_entry("theirs").description == "theirs"
        assert find_entry("trigram") is MODELS["trigram"]


class TestFaultyPackages:
    @pytest.mark.parametrize(
        ("loaded", "fault"),
        [
            (ImportError("no module\nof that name"), "cannot be loaded (ImportError: no module of that name)"),
            ("a string", "of type str"),
        ],
    )
    def test_a_package_that_is_broken_is_listed_with_its_fault(self, monkeypatch, loaded, fault):
        class Point:
            name, value = "theirs", "their:ENTRY"

            def load(self):
                if isinstance(loaded, Exception):
                    raise loaded
                return loaded

        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [Point()])
        assert fault in available_models()["theirs"]
        assert find_entry("theirs").is_peer

    @pytest.mark.parametrize(
        ("made_by", "family", "message"),
        [
            ({}, "counting", "'x' has none"),
            ({"trainer": "a:b", "coder": "a:b"}, "counting", "'x' has trainer and coder"),
            ({"coder": "a:b"}, "counting", "family coder goes with a coder, 'x' has counting and a coder"),
            ({"trainer": "a:b"}, "coder", "family coder goes with a coder, 'x' has coder and a trainer"),
        ],
    )
    def test_an_entry_says_in_one_way_how_it_is_made(self, made_by, family, message):
        with pytest.raises(SpecError, match=message):
            ModelEntry(name="x", description="", config="", family=family, **made_by)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadConfig:
    """A model in a file; what a record holds of it is not where it lies."""

    path: str
    unknown: float = -100.0

    def recorded(self):
        return {"path": Path(self.path).name, "sha256": "0123", "unknown": self.unknown}


@dataclasses.dataclass(frozen=True, kw_only=True)
class CoderConfig:
    """A compressor's."""

    order: int = 6


READ = ModelEntry(
    name="read",
    description="read from a file",
    config=f"{__name__}:ReadConfig",
    reader="theirs:open",
    value="path",
    family="counting",
)
CODER = ModelEntry(
    name="press", description="a compressor", config=f"{__name__}:CoderConfig", coder="theirs:Coder", family="coder"
)


class TestOtherKinds:
    """What is not trained here."""

    @pytest.fixture(autouse=True)
    def _entries(self, monkeypatch):
        monkeypatch.setattr(registry, "PEERS", {"read": READ, "press": CODER})
        load = registry._load
        monkeypatch.setattr(registry, "_load", lambda path: self.made().get(path) or load(path))

    def made(self):
        return {
            READ.config: ReadConfig,
            CODER.config: CoderConfig,
            READ.reader: lambda config, device: ("opened", config.path, device),
            CODER.coder: lambda config: ("coder", config.order),
        }

    def test_a_bare_value_fills_the_field_that_the_entry_names(self):
        assert resolve_config("read:a.arpa,unknown=-7") == ReadConfig(path="a.arpa", unknown=-7.0)
        assert resolve_config('read:"a, b (1.arpa"').path == "a, b (1.arpa"
        assert resolve_config("read:path=a.arpa") == resolve_config("read:a.arpa")

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ("read", "read needs its path; write read:<path>, got 'read'"),
            ("read:a,path=b", "'path' of read is given twice"),
            ("mixture:kn5+read(a)", "read is read from a file and has a vocabulary of its own, so it is no part"),
            ("mixture:kn5+press", "press is a compressor, so it is no part of a mixture"),
        ],
    )
    def test_what_is_wrong_is_named(self, spec, message):
        with pytest.raises(SpecError, match=message):
            resolve_config(spec)

    def test_a_model_is_opened_without_a_corpus(self):
        assert read_model("read:a.arpa") == ("opened", "a.arpa", "cpu")
        assert read_model(parse_spec("read:a.arpa"), device="cuda")[2] == "cuda"
        assert is_read("read:a.arpa")
        assert not is_read("kn5")
        assert not is_read("a.model")

    def test_a_coder_is_made_of_its_options(self):
        assert create_coder("press:order=8") == ("coder", 8)
        assert registry.family_of(parse_spec("press")) == "coder"

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: create_trainer("read:a", VOCAB), r"'read:a' is not trained here: open it with lmzoo.read_model"),
            (lambda: create_trainer("press", VOCAB), "'press' is not trained here: a compressor is no model"),
            (lambda: read_model("kn5"), "'kn5' is not read from a file; those that are: read"),
            (lambda: create_coder("kn5"), "'kn5' is no compressor; those that are: press"),
        ],
    )
    def test_each_kind_is_asked_for_in_its_own_way(self, make, message):
        with pytest.raises(SpecError, match=message):
            make()

    def test_what_another_library_needs_is_said_before_anything_is_opened(self, monkeypatch):
        lacking = {
            "read": dataclasses.replace(READ, requires={"no_such_lib": "x"}),
            "press": dataclasses.replace(CODER, requires={"no_such_lib": "x"}),
        }
        monkeypatch.setattr(registry, "PEERS", lacking)
        registry.all_entries.cache_clear()
        for make in (lambda: read_model("read:a"), lambda: create_coder("press")):
            with pytest.raises(MissingLibraryError, match=r"no_such_lib is not installed: python -m pip install"):
                make()

    def test_a_record_knows_a_file_by_name_and_content(self):
        assert registry.recorded_options("read:/a/b/c.arpa") == {"path": "c.arpa", "sha256": "0123", "unknown": -100.0}
        assert registry.recorded_options("kn5")["order"] == 5

    @pytest.mark.parametrize(
        ("spec", "shown"),
        [
            ("read:/a/b c/d.arpa", "read:d.arpa"),
            ("read:'/a/b,c/d,e.arpa',unknown=-7", 'read:"d,e.arpa",unknown=-7'),
            ("read:path=/a/d.arpa", "read:d.arpa"),
            ("read:b/d.arpa", "read:b/d.arpa"),
            ("ngram:order=2", "ngram:order=2"),
            ("mixture:kn5+unigram", "mixture:kn5+unigram"),
        ],
    )
    def test_an_absolute_path_is_shown_as_a_file_name(self, spec, shown):
        assert registry.shown(parse_spec(spec)) == shown


class TestConfigs:
    @pytest.mark.parametrize(
        ("name", "order"), [("unigram", 1), ("bigram", 2), ("trigram", 3), ("kn5", 5), ("ngram", 5)]
    )
    def test_a_name_sets_its_order(self, name, order):
        assert resolve_config(name).order == order

    def test_options_are_converted(self):
        assert resolve_config("ngram:order=4,smoothing=addk,k=0.5").k == 0.5

    @pytest.mark.parametrize(
        ("spec", "error", "message"),
        [
            ("trigram:order=4", UnknownOptionError, r"'order' of trigram is part of its name \(3\)"),
            ("ngram:ordr=4", UnknownOptionError, "Did you mean 'order'"),
            ("ngram:order=0", OptionValueError, "ngram: order must be 1"),
            ("ngram:file.txt", SpecError, "takes options as key=value, got 'file.txt'"),
            ("trigrm", UnknownModelError, "Did you mean 'trigram'"),
        ],
    )
    def test_what_is_wrong_is_named(self, spec, error, message):
        with pytest.raises(error, match=message):
            resolve_config(spec)

    def test_a_trainer_knows_its_config(self):
        assert create_trainer("bigram", VOCAB).config.order == 2


class TestStored:
    def test_only_registered_kinds_can_be_named(self):
        assert registry.stored_class("ngram").kind == "ngram"
        assert registry.stored_class("os:system") is None

    def test_a_network_in_a_file_says_that_it_needs_torch(self, monkeypatch):
        for name in [name for name in sys.modules if name.startswith("lmzoo.neural.")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(MissingLibraryError, match=r"needs torch: python -m pip install 'lmzoo\[torch\]'"):
            registry.stored_class("recurrent")
