"""The registry: names to models, nothing loaded before it is asked for."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

from lmzoo import registry
from lmzoo.errors import MissingLibraryError, OptionValueError, SpecError, UnknownModelError, UnknownOptionError
from lmzoo.registry import MODELS, ModelEntry, available_models, create_trainer, find_entry, resolve_config
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
        heavy = ("lmzoo.ngram", "lmzoo.neural")
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
