"""Laws about the project itself: public names, which file may import which, what importing loads, sizes, options."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import click
import pytest

import lmzoo
from bench.describe import PRESETS
from lmzoo.registry import MODELS

ROOT = Path(__file__).resolve().parents[1]
MAX_LINES = 400

# A file of lmzoo imports only what stands above it.  A package stands for all files in it.
LMZOO_ORDER = (
    "errors",
    "files",
    "recipe_files",
    "container",
    "streams",
    "fonts",
    "arguments",
    "compiled",
    "markers",
    "inputs",
    "archives",
    "decoding",
    "reading",
    "normalizers",
    "tokenizers",
    "segments",
    "ends",
    "tokens",
    "spelling",
    "parts",
    "vocab",
    "characters",
    "spec",
    "markov",
    "sources",
    "corpus",
    "ids",
    "batches",
    "budget",
    "interface",
    "expectation",
    "tally",
    "coding",
    "evaluation",
    "sampling",
    "ngram",
    "card",
    "neural",
    "mixture",
    "cache",
    "skipping",
    "adapters",
    "catalogue",
    "packages",
    "registry",
    "mixing",
    "storage",
    "checkpoints",
    "driver",
    "conformance",
)
# they put everything together: the facade and the command lines
LMZOO_EXEMPT = {"__init__", "__main__", "cli"}

# likewise for bench
BENCH_ORDER = (
    "recorded",
    "profiled",
    "measured",
    "records",
    "sealed",
    "lifeline",
    "ending",
    "memory",
    "environment",
    "describe",
    "planned",
    "quality",
    "coded",
    "throughput",
    "profiling",
    "agreement",
    "energy",
    "learned",
    "measure",
    "worker",
    "plan",
    "executor",
    "store",
    "student",
    "stats",
    "report",
    "options",
    "sweep",
    "absent",
    "terminal",
    "across_table",
    "asked",
    "running",
    "entry",
    "comparing",
    "compare",
    "tuning",
)
BENCH_EXEMPT = {"__init__", "__main__", "run", "tune"}


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports_of(path: Path) -> Iterator[str]:
    """Dotted names that a file imports, those inside functions and under TYPE_CHECKING included."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join((*base, *(node.module or "").split("."))).strip(".")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def room_of(path: Path) -> str:
    """The name in the order that a file answers to: its own, or its package's."""
    parts = path.relative_to(ROOT).parts[1:]
    return parts[0].removesuffix(".py")


def imported_rooms(path: Path, package: str) -> set[str]:
    rooms = set()
    for name in imports_of(path):
        if name.startswith(f"{package}."):
            rooms.add(name.split(".")[1])
    return rooms


def test_public_names_are_sorted_and_complete() -> None:
    assert lmzoo.__all__ == sorted(lmzoo._HOMES)


@pytest.mark.parametrize("name", sorted(lmzoo._HOMES))
def test_every_public_name_can_be_imported(name: str) -> None:
    value = getattr(lmzoo, name)
    assert value.__module__.startswith(f"lmzoo.{lmzoo._HOMES[name]}")
    assert name in dir(lmzoo)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="lstm"):
        lmzoo.lstm  # noqa: B018


def test_importing_loads_nothing_heavy() -> None:
    script = "import sys, lmzoo; print(*{'torch', 'nltk', 'pandas', 'numba', 'numpy', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []


def below(path: Path, package: str, order: tuple[str, ...], exempt: set[str]) -> set[str]:
    """What a file imports of its package although it stands below."""
    room = room_of(path)
    if room in exempt:
        return set()
    assert room in order, f"{room} has no place in the order of {package}"
    return imported_rooms(path, package) - set(order[: order.index(room) + 1])


@pytest.mark.parametrize("path", sources("lmzoo"), ids=relative)
def test_arrows_of_lmzoo(path: Path) -> None:
    assert below(path, "lmzoo", LMZOO_ORDER, LMZOO_EXEMPT) <= {"__version__"}


@pytest.mark.parametrize("path", sources("lmzoo"), ids=relative)
def test_lmzoo_does_not_know_bench(path: Path) -> None:
    assert not [name for name in imports_of(path) if name.split(".")[0] == "bench"]


@pytest.mark.parametrize("path", sources("bench"), ids=relative)
def test_arrows_of_bench(path: Path) -> None:
    assert not below(path, "bench", BENCH_ORDER, BENCH_EXEMPT)


def test_the_report_knows_no_model() -> None:
    for path in sources("bench/report"):
        names = imported_rooms(path, "lmzoo")
        assert not names & {"ngram", "neural", "mixture", "cache", "adapters", "registry", "driver"}, path


@pytest.mark.parametrize("package", ["lmzoo", "bench"])
def test_no_room_without_an_idea(package: str) -> None:
    assert not [p for p in sources(package) if p.stem in {"utils", "util", "helpers", "common", "misc"}]


@pytest.mark.parametrize("package", ["lmzoo", "bench"])
def test_modules_are_small(package: str) -> None:
    long = {str(p.relative_to(ROOT)): n for p in sources(package) if (n := line_count(p)) > MAX_LINES}
    assert not long


def line_count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("package", ["lmzoo", "bench"])
def test_every_file_of_a_package_is_shipped(package: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"][package]
    files = [p.relative_to(ROOT / package) for p in (ROOT / package).rglob("*") if p.is_file()]
    data = [f for f in files if f.suffix != ".py" and "__pycache__" not in f.parts]
    assert not [f for f in data if not any(fnmatch(str(f), pattern) for pattern in patterns)]


def test_pinned_versions_cover_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    names = {re.match(r"[\w-]+", requirement)[0].lower() for requirement in asked}  # type: ignore[index]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert not [pin for pin in pins if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", pin)]
    assert not names - {pin.split("==")[0] for pin in pins} - {"lmzoo"}


def test_the_changelog_has_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {lmzoo.__version__}" in changelog
    lines = [line for line in changelog.splitlines() if line.startswith("- ")]
    assert lines
    assert not [line for line in lines if not re.match(r"- \[(lmzoo|bench|rules|results)\] ", line)]


COMMAND_LINES = ("lmzoo.cli", "bench.run", "bench.report.__main__", "bench.compare", "bench.tune")


def options_of(command: click.Command) -> Iterator[str]:
    """The long names of a command's options and of those of its subcommands."""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield max(parameter.opts, key=len)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            yield from options_of(inner)


def documentation() -> str:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)


@pytest.mark.parametrize("module", COMMAND_LINES)
def test_every_option_is_documented(module: str) -> None:
    commands = [c for c in vars(importlib.import_module(module)).values() if isinstance(c, click.Command)]
    assert commands
    shown = set(re.findall(r"`(--[a-z-]+)`", documentation()))
    assert not {option for command in commands for option in options_of(command)} - shown


def test_every_model_and_every_key_of_a_spec_is_documented() -> None:
    text = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)))
    for entry in MODELS.values():
        module, _, name = entry.config.partition(":")
        fields = {field.name for field in dataclasses.fields(getattr(importlib.import_module(module), name))}
        assert not {entry.name, *(fields - set(entry.fixed))} - shown, entry.name


def test_the_words_for_several_models_are_documented() -> None:
    text = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    assert not [word for word in PRESETS if f"* `{word}`: " not in text]


def test_every_page_is_listed() -> None:
    for index in (ROOT / "docs" / "index.md", ROOT / "docs" / "adr" / "README.md"):
        listed = set(re.findall(r"\]\(([^)]+)\)", index.read_text(encoding="utf-8")))
        assert not {page.name for page in index.parent.glob("*.md")} - listed - {index.name}


def test_the_glossary_is_in_order() -> None:
    terms = re.findall(r"^\*\*(.+?)\*\*", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    # markers have no letter to start with and stand last
    words = [term.casefold() for term in terms if term[0].isalpha()]
    assert words == sorted(words)
    assert [term[0].isalpha() for term in terms] == sorted((term[0].isalpha() for term in terms), reverse=True)


# what the environments without torch lack
TORCH_ENVIRONMENT = {"torch", "numba", "ray", "kenlm", "transformers", "datasets"}


def is_plain(tree: ast.Module) -> bool:
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    marks = [ast.unparse(node.value) for node in assigned if ast.unparse(node.targets[0]) == "pytestmark"]
    return any("pytest.mark.plain" in mark for mark in marks)


def test_modules_that_are_not_repeated_with_torch_need_nothing_of_that_environment() -> None:
    """Those tests of them that do are marked, and run there: `torch` or `slow`."""
    plain = [path for path in (ROOT / "tests").rglob("test_*.py") if is_plain(ast.parse(path.read_text("utf-8")))]
    assert plain
    for path in plain:
        asked = re.findall(r"importorskip\(\s*\"(\w+)", path.read_text(encoding="utf-8"))
        imported = {name.split(".")[0] for name in imports_of(path)} | set(asked)
        assert not imported & TORCH_ENVIRONMENT, path


NEEDS_DATA = """
import pytest

def test_by_fixture(data_folder):
    assert data_folder

@pytest.mark.skip(reason="LMZOO_GOLDEN names no folder")
def test_by_mark():
    pass

@pytest.mark.skip(reason="no browser: none is installed")
def test_by_browser():
    pass

@pytest.mark.skip(reason="for another reason")
def test_otherwise():
    pass
"""


@pytest.mark.parametrize(
    ("variables", "outcome"),
    [
        ({}, "4 skipped"),
        ({"LMZOO_REQUIRE_DATA": "1", "LMZOO_REQUIRE_BROWSER": "1"}, "1 skipped"),
    ],
)
def test_a_skip_for_want_of_data_or_a_browser_fails_where_it_is_required(
    tmp_path: Path, variables: dict[str, str], outcome: str
) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_data.py").write_text(NEEDS_DATA, encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LMZOO_")} | variables
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert outcome in done.stdout.splitlines()[-1]
    assert done.returncode == bool(variables)


def test_what_is_cited_is_this_version() -> None:
    cited = dict(re.findall(r"^([a-z-]+): (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cited["version"] == lmzoo.__version__
    assert (cited["license"], cited["abstract"]) == (project["license"], project["description"])
