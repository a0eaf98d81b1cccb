"""Every command and Python example of README and docs is run, and what it prints is compared with what is shown.

In a page, blocks fenced as `python` are interpreter sessions that share one namespace; blocks fenced as `console` are
commands behind `$ ` with what they print, run in one folder of the page's own.  `...` stands for any text.  A block
fenced as `toml` is a file of that folder, named in a comment on its first line.  The comment `<!-- needs torch -->`
before a block keeps it for the environments that have torch; `<!-- needs ray -->` keeps it for those that have ray,
where it is run beside a cluster of its own.  Set-up commands, which change the environment or start what goes on
running, are fenced as `sh` and are run by whoever sets one up.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.bench.clusters import two_nodes

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

BUSY = "warning: the machine was busy"
NEEDS_TORCH = "<!-- needs torch -->"
NEEDS_RAY = "<!-- needs ray -->"
HAS_RAY = importlib.util.find_spec("ray") is not None
FLAGS = doctest.ELLIPSIS
RUN = re.compile(r"([ ━─])\1+")
SET_UP = re.compile(
    r"(python -m pip install|tox|git clone|cd|export|bash|\(umask|ray (?:start|status|stop)|scp|sbatch) ?.*"
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, text and the 1-based line of its first line; whether it needs torch or ray."""

    language: str
    text: str
    line: int
    needs_torch: bool
    needs_ray: bool


def blocks_of(markdown: str) -> Iterator[Block]:
    lines = markdown.splitlines()
    start: int | None = None
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start = number
            continue
        before = next((text for text in reversed(lines[:start]) if text), "")
        text = "\n".join(lines[start + 1 : number]) + "\n"
        yield Block(lines[start][3:].strip(), text, start + 2, before == NEEDS_TORCH, before == NEEDS_RAY)
        start = None
    if start is not None:
        raise AssertionError(f"the block that starts on line {start + 1} never ends")


def commands_of(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a console block, a line that ends in a backslash going on, and what each prints."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not parts[0].strip(), f"line {block.line}: a console block starts with a command"
    for part in parts[1:]:
        command, printed = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*)\n(.*)", part, re.DOTALL).groups()  # type: ignore[union-attr]
        yield command, printed


def differences(wanted: str, got: str) -> str:
    """How the text printed differs from the text shown; empty where it does not.

    How wide a table's columns come out follows from the figures measured, so runs of blanks and rules are one.
    """
    clean = [
        "\n".join(RUN.sub(r"\1", line).rstrip() for line in text.strip("\n").splitlines()) + "\n"
        for text in (wanted, got)
    ]
    checker = doctest.OutputChecker()
    # a blank line is a blank line in a console, there is no marker for it
    if checker.check_output(*clean, FLAGS | doctest.DONT_ACCEPT_BLANKLINE):
        return ""
    return checker.output_difference(doctest.Example("", clean[0]), clean[1], FLAGS)


def run_session(block: Block, names: dict[str, Any], page: Path) -> None:
    test = doctest.DocTestParser().get_doctest(block.text, names, page.name, str(page), block.line - 1)
    assert test.examples, f"{page.name}, line {block.line}: no example in a python block"
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    report = io.StringIO()
    runner.run(test, out=report.write, clear_globs=False)
    names.update(test.globs)
    assert runner.failures == 0, report.getvalue()


def run_commands(block: Block, folder: Path, page: Path) -> None:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    kept = {key: value for key, value in os.environ.items() if key not in ("LMZOO_DATA", "COLUMNS", "FORCE_COLOR")}
    environment = kept | {"PATH": path, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}
    for command, wanted in commands_of(block):
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        where = f"{page.name}, line {block.line}: $ {command}\n"
        assert done.returncode == 0, f"{where}exit {done.returncode}\n{done.stdout}"
        # what else the machine was doing is no concern of a page
        told = "".join(line for line in done.stdout.splitlines(True) if not line.startswith(BUSY))
        difference = differences(wanted, told)
        assert not difference, where + difference


def write_file(block: Block, folder: Path) -> None:
    name = re.match(r"# ([\w-]+\.toml)\n", block.text)
    assert name, f"line {block.line}: a toml block starts with the name of its file"
    (folder / name[1]).write_text(block.text, encoding="utf-8")


def run_page(page: Path, folder: Path, *, with_torch: bool) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.chdir(folder):
        for block in blocks_of(page.read_text(encoding="utf-8")):
            if (block.needs_torch and not with_torch) or (block.needs_ray and not HAS_RAY):
                continue
            if block.language == "python":
                run_session(block, names, page)
            elif block.language == "console":
                with two_nodes() if block.needs_ray else contextlib.nullcontext():
                    run_commands(block, folder, page)
            elif block.language == "toml":
                write_file(block, folder)


def cases() -> Iterator[Any]:
    """Each page with what needs torch and, where torch is missing or nothing needs it, without."""
    has_torch = importlib.util.find_spec("torch") is not None
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        runnable = [b for b in blocks_of(page.read_text(encoding="utf-8")) if b.language in ("python", "console")]
        needs_torch = any(block.needs_torch for block in runnable)
        if not all(block.needs_torch for block in runnable) and not (has_torch and needs_torch):
            # a run of the harness starts a process per trial
            mark = pytest.mark.slow if any("-m bench.run" in block.text for block in runnable) else pytest.mark.whole
            marks = [mark] if runnable else []
            yield pytest.param(page, False, id=name, marks=marks)
        if needs_torch:
            yield pytest.param(page, True, id=f"{name}-torch", marks=[pytest.mark.torch, pytest.mark.slow])


@pytest.mark.filterwarnings("ignore::lmzoo.ngram.discounts.DiscountWarning")
@pytest.mark.parametrize(("page", "with_torch"), list(cases()))
def test_a_page_shows_what_its_examples_print(page: Path, with_torch: bool, tmp_path: Path) -> None:
    run_page(page, tmp_path, with_torch=with_torch)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_block_is_run_or_known_not_to_be(page: Path) -> None:
    for block in blocks_of(page.read_text(encoding="utf-8")):
        assert block.language in ("python", "console", "toml", "sh", "text"), f"line {block.line}: {block.language!r}"
        if block.language == "sh":
            assert not [x for x in block.text.splitlines() if not SET_UP.fullmatch(x)], f"line {block.line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_page_shows_a_folder_of_somebodys_machine(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"(?<![\w.:/])/(?:root|home|Users|tmp|work|var)/\S*", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    targets = [t for t in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if "://" not in t]
    assert not [t for t in targets if not (page.parent / t).exists()]


def test_the_readme_starts_with_the_two_commands_that_set_everything_up() -> None:
    first = next(blocks_of((ROOT / "README.md").read_text(encoding="utf-8")))
    assert first.text.splitlines() == [
        "python -m pip install -c constraints.txt -e '.[all]' && python -m bench.run --models all",
        "python -m pip install tox && tox",
    ]


class TestTheRunnerItself:
    """The runner has to notice what it is there for."""

    def page(self, folder: Path, text: str) -> Path:
        page = folder / "page.md"
        page.write_text(text, encoding="utf-8")
        return page

    def test_names_live_through_a_page(self, tmp_path: Path) -> None:
        page = self.page(tmp_path, "```python\n>>> x = 20\n```\nand\n```python\n>>> x + 1\n21\n```\n")
        run_page(page, tmp_path, with_torch=False)

    def test_a_toml_block_is_a_file_for_the_commands_after_it(self, tmp_path: Path) -> None:
        text = "```toml\n# a.toml\nx = 1\n```\nand\n```console\n$ cat a.toml\n# a.toml\nx = 1\n```\n"
        run_page(self.page(tmp_path, text), tmp_path, with_torch=False)
        with pytest.raises(AssertionError, match="line 2"):
            run_page(self.page(tmp_path, "```toml\nx = 1\n```\n"), tmp_path, with_torch=False)

    @pytest.mark.parametrize(
        "block",
        [
            "```python\n>>> 1 + 1\n3\n```",
            "```python\n>>> undefined\n```",
            "```console\n$ echo one\ntwo\n```",
            "```console\n$ echo one\n```",
            "```console\n$ false\n```",
            "```console\n$ false | true\n```",
        ],
    )
    def test_a_difference_fails(self, tmp_path: Path, block: str) -> None:
        page = self.page(tmp_path, block + "\n")
        with pytest.raises(AssertionError):
            run_page(page, tmp_path, with_torch=False)

    def test_commands_share_a_folder_and_dots_stand_for_anything(self, tmp_path: Path) -> None:
        text = "```console\n$ echo one > a; \\\n  echo two\ntwo\n$ cat a; date\none\n...\n```\n"
        run_page(self.page(tmp_path, text), tmp_path, with_torch=False)

    def test_a_figure_of_more_digits_widens_a_table_and_is_no_difference(self) -> None:
        wanted = "  Title\n┏━━━┳━━━━┓\n┃ a ┃ µs ┃\n│ x │ ... │\n"
        got = "    Title\n┏━━━┳━━━━━━━━┓\n┃ a ┃     µs ┃\n│ x │ 123.45 │\n"
        assert not differences(wanted, got)
        assert differences(wanted, got.replace("┃ a", "┃ b"))

    def test_a_block_that_needs_torch_waits_for_it(self, tmp_path: Path) -> None:
        page = self.page(tmp_path, f"{NEEDS_TORCH}\n```console\n$ echo > ran\n\n```\n")
        run_page(page, tmp_path, with_torch=False)
        assert not (tmp_path / "ran").exists()
        run_page(page, tmp_path, with_torch=True)
        assert (tmp_path / "ran").exists()

    def test_a_block_without_an_end_is_an_error(self) -> None:
        with pytest.raises(AssertionError, match="line 1"):
            list(blocks_of("```python\n>>> 1\n"))


HEADER = (
    "model,corpus,device,status,reason,n_seeds,test_perplexity,test_perplexity_low,test_perplexity_high,"
    "bits_per_char,train_s,model_bytes,next_token_us,peak_rss_bytes,is_adaptive\n"
)
ROWS = (
    "kn5,genesis,cpu,ok,,1,3.3197,3.21,3.43,1.7311,0.0512,425000,24.6,83886080,false\n"
    "bigram,genesis,cpu,ok,,1,9.0818,8.9,9.3,3.183,0.0123,2048000,13.4,52428800,true\n"
    "lstm-cudnn,genesis,cpu,diverged,diverged at step 7,1,,,,,1.5,,,,false\n"
    "ngram,genesis,cpu,ok,,1,inf,inf,inf,inf,0.02,1024,9,62914560,false\n"
)
PAIRS = "model_a,model_b,verdict\nbigram,kn5,b\nkn5,ngram,~\nbigram,ngram,a\n"


def readme_table() -> Any:
    spec = importlib.util.spec_from_file_location("readme_table", ROOT / "docs" / "readme_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["readme_table"] = module
    spec.loader.exec_module(module)
    return module


def test_the_readme_table_is_made_of_the_summary(tmp_path: Path) -> None:
    run = tmp_path / "reference"
    (run / "tables").mkdir(parents=True)
    (run / "tables" / "summary.csv").write_text(HEADER + ROWS, encoding="utf-8")
    (run / "tables" / "significance.csv").write_text(PAIRS, encoding="utf-8")
    lines = readme_table().section(run, "results/reference").splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    assert rows == [
        "| `kn5` | 3.320 [3.210, 3.430] | best | 1.731 | 0.0512 | 415 | 25 | 80 |",
        "| `bigram`* | 9.082 [8.900, 9.300] | worse | 3.183 | 0.0123 | 2,000 | 13 | 50 |",
        "| `ngram` | inf | ~ | inf | 0.02 | 1 | 9 | 60 |",
        "| `lstm-cudnn` | diverged: diverged at step 7 | n/a | n/a | 1.5 | n/a | n/a | n/a |",
    ]


def test_the_readme_is_rewritten_between_its_marks_alone(tmp_path: Path) -> None:
    module = readme_table()
    text = f"before\n{module.START}\nold\n{module.END}\nafter\n"
    assert module.replaced(text, "new\n") == f"before\n{module.START}\nnew\n{module.END}\nafter\n"
    with pytest.raises(SystemExit, match="marks"):
        module.replaced("no marks\n", "new\n")


def test_the_readme_shows_the_reference_run() -> None:
    module = readme_table()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    run = ROOT / "results" / "reference"
    wanted = module.section(run, "results/reference") if (run / "tables" / "summary.csv").exists() else ""
    assert module.replaced(readme, wanted) == readme
