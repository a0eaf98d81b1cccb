"""Plan files: they ask for the same as a command line does, and what cannot be followed is one line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import run as run_module
from bench import running
from bench.asked import EXECUTORS, Asked
from bench.records import CorpusSpec, RunInfo
from bench.run import command
from tests.bench import stubs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of plans that is not the current one; nothing runs."""
    monkeypatch.setattr(run_module, "run", lambda _: pytest.fail("a run began"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    plans = tmp_path / "plans"
    plans.mkdir()
    (plans / "a.txt").write_text("the cat sat on the mat\n", encoding="utf-8")
    return plans


def asked(*arguments: str | Path) -> Asked:
    """What a command line asks for, read without running it."""
    found: list[Asked] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "run", lambda asked: found.append(asked) or 0)
        command.main([str(a) for a in arguments], standalone_mode=False, obj=list(map(str, arguments)))
    return dataclasses.replace(found[0], command="")


def plan_of(folder: Path, text: str) -> Path:
    path = folder / "sweep.toml"
    path.write_text(text, encoding="utf-8")
    return path


def specs_of(folder: Path, text: str) -> list[dict[str, Any]]:
    """What is said of each text that a plan names."""
    corpora = asked("--plan", plan_of(folder, text)).question.corpora
    return [corpus.model_dump(exclude_defaults=True) for corpus in corpora]


# each option with values that are not its default
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "models": st.lists(st.sampled_from(["unigram", "kn5", "ngram:order=4,smoothing=wb"]), min_size=1),
    "corpus": st.lists(st.sampled_from(["genesis", "ptb", "kjv"]), min_size=1),
    "tokens": st.sampled_from(["char", ["word", "char"]]),
    "normalize": st.sampled_from(["letters", "nfc+lower"]),
    "encoding": st.sampled_from(["utf-16", "latin-1"]),
    "invalid": st.just("replace"),
    "documents": st.sampled_from(["line", "file"]),
    "min_freq": st.integers(2, 9),
    "train_fractions": st.lists(st.floats(0.001, 1) | st.sampled_from(["1/4", "0.5", 1]), min_size=1),
    "device": st.sampled_from(["cuda", ["cpu", "cuda:1"]]),
    "seeds": st.integers(2, 9),
    "budget": st.floats(0.1, 9) | st.integers(1, 9),
    "epochs": st.floats(0.1, 9),
    "max_steps": st.integers(1, 9),
    "target_ppl": st.lists(st.floats(1, 99) | st.integers(1, 99), min_size=1),
    "time_limit": st.floats(10, 999),
    "no_text": st.just(True),
    "quick": st.just(True),
    "debug": st.just(True),
    "resume": st.just(True),
}


def as_arguments(options: dict[str, Any]) -> list[str]:
    """The command line that asks for the same."""
    arguments: list[str] = []
    for key, value in options.items():
        name = f"--{key.replace('_', '-')}"
        items = [str(item) for item in (value if isinstance(value, list) else [value])]
        if value is True:
            arguments.append(name)
        elif key in ("corpus", "target_ppl"):
            arguments += [part for item in items for part in (name, item)]
        else:
            arguments += [name, ",".join(items)]
    return arguments


def as_toml(options: dict[str, Any]) -> str:
    # texts, numbers, true and lists are written alike in both
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in options.items())


@given(options=st.fixed_dictionaries({}, optional=VALUES).filter(bool))
def test_a_plan_asks_for_what_a_command_line_of_the_same_values_does(
    options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = plan_of(tmp_path_factory.mktemp("plan"), as_toml(options))
    assert asked("--plan", path) == asked(*as_arguments(options))


def test_every_option_can_stand_in_a_plan() -> None:
    names = {str(parameter.name) for parameter in command.params}
    # those of one machine, of files, and the plan itself
    assert names - set(VALUES) <= {
        "plan",
        "train",
        "valid",
        "test",
        "out",
        "threads",
        "memory_limit",
        "force",
        "executor",
    }


def test_folders_and_patterns_start_from_the_plan_too(folder: Path) -> None:
    text = """
    models = "unigram"
    corpora = [".", "*.txt", {train = "[ab].txt", test = "a.txt", encoding = "latin-1", invalid = "replace"}]
    """
    assert specs_of(folder, text) == [
        {"name": str(folder)},
        {"name": str(folder / "*.txt")},
        {
            "train": str(folder / "[ab].txt"),
            "test": str(folder / "a.txt"),
            "encoding": "latin-1",
            "invalid": "replace",
        },
    ]


def test_texts_one_by_one_are_read_each_in_its_own_way_beside_the_plan(folder: Path) -> None:
    text = """
    models = "unigram"
    normalize = "lower"
    corpora = [
        "genesis",
        "a.txt",
        {name = "ptb", tokens = ["char", "word"], normalize = "none", documents = "running", min_freq = 3},
        {train = ["a.txt", "b.txt"], test = "/data/c.txt", valid = "v.txt"},
        "markov:order=2",
    ]
    """
    beside = {name: str(folder / f"{name}.txt") for name in "abv"}
    word = {"name": "ptb", "tokens": "word", "normalize": "none", "documents": "running", "min_freq": 3}
    assert specs_of(folder, text) == [
        {"name": "genesis", "normalize": "lower"},
        {"name": beside["a"], "normalize": "lower"},
        word | {"tokens": "char"},
        word,
        {
            "train": (beside["a"], beside["b"]),
            "valid": beside["v"],
            # an absolute path is itself wherever the plan lies
            "test": "/data/c.txt",
            "normalize": "lower",
        },
        {"name": "markov:order=2", "normalize": "lower"},
    ]


def test_every_path_of_a_plan_starts_from_its_folder(folder: Path) -> None:
    (folder / "texts").mkdir()
    found = asked("--plan", plan_of(folder, 'out = "r"\ntrain = "texts/a.txt"\ntest = "../c.txt"'))
    assert found.out == folder / "r"
    assert found.question.corpora == (CorpusSpec(train=str(folder / "texts/a.txt"), test=str(folder / "../c.txt")),)


def test_how_to_run_is_for_the_command_line_to_say(folder: Path) -> None:
    path = plan_of(folder, 'models = "kn5"\nout = "r"\nquick = false\nseeds = 3\nexecutor = "local"')
    found = asked("--plan", path, "--out", "elsewhere", "--quick", "--resume", "--debug", "--executor", "ray")
    assert (found.out, found.limits.quick, found.mode, found.debug) == (Path("elsewhere"), True, "resume", True)
    assert found.executor == "ray"
    assert found.seeds == 3


def refusal(arguments: list[str | Path], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a command line is refused with."""
    assert run_module.main([str(argument) for argument in arguments]) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    return errors


BAD_PLANS = {
    'modles = "kn5"': "no option 'modles'. Did you mean 'models'? There are: models, corpus",
    'plan = "other.toml"': "no option 'plan'.",
    'seeds = "three"': "seeds: wanted a whole number, got 'three'",
    "seeds = true": "seeds: wanted a whole number, got true",
    "seeds = 2.5": "seeds: wanted a whole number, got 2.5",
    "seeds = [1]": "seeds: wanted a whole number, got a list",
    "seeds = 0": "seeds: 0 is not in the range",
    "seeds = 0x10000000000000000": "seeds: wanted a whole number, got 18446744073709551616",
    "budget = nan": "budget: nan is not a finite number above 0",
    'budget = "long"': "budget: wanted a number, got 'long'",
    "no_text = 1": "no_text: wanted true or false, got 1",
    "normalize = 1": "normalize: wanted text, got 1",
    'out = "a\\u0000"': "out: wanted text, got 'a\\x00'",
    "models = []": "models: wanted text, a number, or a list of them, got an empty list",
    "models = [{}]": "models: wanted text, a number, or a list of them, got a table",
    'models = ["kn5", "kn5:(order=3"]': "models: a '(' without its ')'",
    "train_fractions = [0.5, 2]": "train_fractions: 2 is not above 0 and at most 1",
    "train_fractions = [false]": "train_fractions: wanted text, a number, or a list of them, got false",
    "target_ppl = [0.5]": "target_ppl: a perplexity is finite and at least 1, got 0.5",
    "corpora = []": "corpora: wanted a list of names, paths or tables, got an empty list",
    'corpora = "genesis"': "corpora: wanted a list of names, paths or tables, got 'genesis'",
    "corpora = [[]]": "corpora: name: wanted text, a number, or a list of them, got an empty list",
    'corpora = ["genesi"]': "no corpus, and beside the plan no file 'genesi'. Did you mean 'genesis'?",
    'corpus = "nowhere.txt"': "corpus: no corpus, and beside the plan no file 'nowhere.txt'.",
    'corpora = [{nam = "genesis"}]': "no key in a table of corpora 'nam'. Did you mean 'name'?",
    'corpora = [{train = "a.txt"}]': "corpora: a table has name, or train and test; got train",
    'corpora = [{name = "genesis", valid = "a.txt"}]': "corpora: a table has name, or train and test; got name, valid",
    'corpora = [{tokens = "char"}]': "corpora: a table has name, or train and test; got tokens",
    'corpora = ["genesis"]\ntrain = "a.txt"': "corpora and train exclude each other",
    'models = "kn5"\nseeds = ': "is no TOML: Invalid value (at line 2, column 9)",
    'seeds = 1\nmodels = ["kn5"': "is no TOML: Unclosed array (at line 2, column 16)",
    "seeds = 1\nseeds = 2": "is no TOML: Cannot overwrite a value (at line 2, column 10)",
    "models = " + "[" * 5000: "its lists are nested too deeply",
    "": "it asks for nothing; name models, say",
    "# nothing": "it asks for nothing; name models, say",
}


@pytest.mark.parametrize("text", BAD_PLANS, ids=range(len(BAD_PLANS)))
def test_a_plan_that_cannot_be_followed_is_one_line(
    text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = plan_of(folder, text)
    errors = refusal(["--plan", path], capsys)
    assert f"--plan {path}: " in errors
    assert BAD_PLANS[text] in errors


def test_a_plan_that_cannot_be_read_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere.toml: cannot be read: No such file or directory" in refusal(["--plan", "nowhere.toml"], capsys)
    assert "cannot be read: Is a directory" in refusal(["--plan", folder], capsys)
    path = folder / "latin.toml"
    path.write_bytes('models = "é"'.encode("latin-1"))
    assert "is not UTF-8 at byte 10" in refusal(["--plan", path], capsys)


TYPED_TOO = {
    "seeds = 1": (["--seeds", "1"], "seeds is given here and by --seeds; give it in one place"),
    'models = ["kn5"]': (["--models", "kn5"], "models is given here and by --models"),
    'corpora = ["genesis"]': (["--corpus", "genesis"], "corpus is given here and by --corpus"),
    'corpora = ["ptb"]': (["--test", "a.txt"], "test is given here and by --test"),
    'corpora = [{name = "genesis", tokens = "char"}]': (["--tokens", "word"], "tokens is given here and by --tokens"),
    "epochs = 2": (["--epochs", "3", "--quick"], "epochs is given here and by --epochs"),
}


@pytest.mark.parametrize("text", TYPED_TOO)
def test_what_is_typed_may_not_stand_in_the_plan_too(
    text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, wanted = TYPED_TOO[text]
    assert wanted in refusal(["--plan", plan_of(folder, text), *arguments], capsys)


def test_a_plan_contradicts_a_command_line_like_two_options_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = plan_of(folder, 'corpus = "genesis"')
    assert "--corpus and --train exclude each other" in refusal(["--plan", path, "--train", "a.txt"], capsys)


def test_what_is_not_in_the_plan_may_be_typed(folder: Path) -> None:
    path = plan_of(folder, 'models = ["unigram"]\ncorpora = ["a.txt"]')
    found = asked("--plan", path, "--tokens", "word", "--seeds", "2")
    assert found.seeds == 2
    assert [corpus.tokens for corpus in found.question.corpora] == ["word"]


def test_a_value_is_text_as_it_would_be_typed_whatever_the_locale(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a process of the C locale sees the bytes of a name as half surrogates
    monkeypatch.setattr("os.fsdecode", lambda data: data.decode("ascii", "surrogateescape"))
    monkeypatch.setattr("os.fsencode", lambda text: text.encode("ascii", "surrogateescape"))
    assert specs_of(folder, 'train = "红.txt"\ntest = "红.txt"')[0]["test"] == str(folder / "红.txt")


def test_a_plan_is_run_and_its_trials_and_name_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXECUTORS, "local", stubs.InstantExecutor)
    monkeypatch.setattr(running, "_report", lambda *_: False)
    (tmp_path / "a.txt").write_text("".join(f"the cat sat on mat {i}\n" for i in range(60)), encoding="utf-8")
    text = 'models = ["unigram", "bigram"]\ntrain_fractions = ["1/2", 1]\ncorpora = [{name = "a.txt", tokens = "word"}]'
    out = tmp_path / "run"
    assert run_module.main(["--plan", str(plan_of(tmp_path, text)), "--out", str(out)]) == 0
    info = RunInfo.model_validate_json((out / "run.json").read_bytes())
    assert info.command == "python -m bench.run --plan sweep.toml --out run"
    assert [(t.model, t.train_fraction, t.corpus.name, t.corpus.tokens) for t in info.plan] == [
        (model, fraction, "a.txt", "word") for fraction in (0.5, 1.0) for model in ("unigram", "bigram")
    ]
    assert len(list((out / "trials").glob("*.json"))) == 4


def test_what_becomes_of_an_existing_folder_is_one_question(folder: Path) -> None:
    path = plan_of(folder, 'models = "unigram"\nresume = true')
    assert asked("--plan", path).mode == "resume"
    assert asked("--plan", path, "--force").mode == "force"
