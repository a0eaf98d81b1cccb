"""The command line: bad arguments, whole runs, interruption, resuming, and what stays out of the files."""

from __future__ import annotations

import csv
import getpass
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bench import asked, running
from bench import run as run_module
from bench.environment import n_cpus_usable
from bench.records import RunInfo, TrialRecord
from tests.bench import stubs

# the runner with the stand-in for its worker
WITH_STUB = """
import sys
from bench import asked, run, running
from tests.bench import stubs
asked.EXECUTORS["local"] = lambda **_: stubs.stub_executor()
{before}
run.end_tidily_on_signals()
status = run.main(sys.argv[1:])
print(*sorted({{name.partition(".")[0] for name in sys.modules}}), file=sys.stderr)
sys.exit(status)
"""
NO_REPORT = "running._report = lambda *_: False"
HEAVY = {"numpy", "torch", "pandas", "matplotlib", "numba", "nltk"}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "my texts" / "a.txt"
    path.parent.mkdir()
    # every line another, so that no test line is a training line
    path.write_text("".join(f"the cat sat on mat {i}\n" for i in range(60)), encoding="utf-8")
    return path


def start(
    *arguments: str | Path, before: str = NO_REPORT, variables: Mapping[str, str] | None = None, **options: object
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WITH_STUB.format(before=before), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | dict(variables or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        **options,  # type: ignore[call-overload]
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


def records_in(folder: Path) -> dict[str, TrialRecord]:
    paths = sorted((folder / "trials").glob("*.json"))
    records = [TrialRecord.model_validate_json(path.read_bytes()) for path in paths]
    return {record.trial.model: record for record in records}


def in_process(*arguments: str | Path) -> int:
    return run_module.main([str(argument) for argument in arguments])


@pytest.fixture
def stubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(asked.EXECUTORS, "local", lambda **_: stubs.stub_executor())
    monkeypatch.setattr(running, "_report", lambda *_: False)


BAD_ARGUMENTS = {
    "--models lstn": "no model 'lstn'. Did you mean 'lstm-scratch'?",
    "--models kn5:ordr=3": "kn5 has no option 'ordr'.",
    "--models ngram:order=many": "order of ngram is of type int, got 'many'",
    "--models kn5,,bigram": "an empty item in 'kn5,,bigram'",
    "--corpus genesi": "no corpus and no file 'genesi'. Did you mean 'genesis'?",
    "--corpus genesis --tokens chr": "no tokenizer 'chr'. Did you mean 'char'?",
    "--corpus genesis --normalize leters": "no normaliser 'leters'. Did you mean 'letters'?",
    "--corpus genesis --documents lines": "no context policy 'lines'. Did you mean 'line'?",
    "--device gpu": "no device 'gpu'. Did you mean 'cuda'?",
    "--device cpu,": "an empty item in --device 'cpu,'",
    "--seeds 0": "'--seeds': 0 is not in the range",
    "--seeds two": "'--seeds': 'two' is not a valid integer",
    "--budget nan": "'--budget': nan is not a finite number above 0",
    "--budget 0": "'--budget': 0 is not a finite number above 0",
    "--epochs -1": "'--epochs': -1 is not a finite number above 0",
    "--max-steps 0": "'--max-steps': 0 is not in the range",
    "--train-fractions 2": "'--train-fractions': 2 is not above 0 and at most 1",
    "--train-fractions 1/2,0": "'--train-fractions': 0 is not above 0 and at most 1",
    "--train-fractions nan": "'--train-fractions': nan is not above 0 and at most 1",
    "--train-fractions 1/0": "'--train-fractions': '1/0' is no fraction; write 1/4 or 0.25",
    "--train-fractions 1/2/2": "'--train-fractions': '1/2/2' is no fraction",
    "--train-fractions 1/": "'--train-fractions': '1/' is no fraction",
    "--train-fractions half": "'--train-fractions': 'half' is no fraction",
    "--train-fractions 1,": "'--train-fractions': '' is no fraction",
    "--min-freq 0": "'--min-freq': 0 is not in the range",
    "--threads 0": "'--threads': 0 is not in the range",
    f"--threads {10**6}": f"--threads {10**6}: {n_cpus_usable()} CPUs are usable here",
    "--memory-limit 1e9": "--memory-limit 1e+09 MiB: this machine has",
    "--budget 60 --time-limit 60": "--time-limit 60 would end every trial before its --budget of 60 s",
    "--seeds 100001": "'--seeds': 100001 is not in the range 1<=x<=100000",
    "--time-limit inf": "'--time-limit': inf is not a finite number above 0",
    "--target-ppl 5,x": "'--target-ppl': 'x' is not a number",
    "--target-ppl 0.5": "a perplexity is finite and at least 1, got 0.5",
    "--train a.txt": "--train and --test are both needed, got --train alone",
    "--train a.txt --test b.txt --corpus genesis": "--corpus and --train exclude each other",
    "--train nowhere.txt --test nowhere.txt": "nowhere.txt",
    "--train a.txt --test b.txt --test c.txt": "--test is given twice; give it once",
    "--models kn5 --models bigram": "--models is given twice; give one list, separated by commas",
    "--tokens char --tokens word --tokens char": "--tokens is given 3 times; give one list, separated by commas",
    "--seeds 1 --seeds 2": "--seeds is given twice; give it once",
    "--resume --force": "--resume and --force exclude each other",
    "--modles kn5": "No such option '--modles'.",
    "kn5": "unexpected extra argument (kn5)",
}


@pytest.mark.usefixtures("stubbed")
@pytest.mark.parametrize("arguments", BAD_ARGUMENTS)
def test_a_bad_argument_is_one_line_and_nothing_is_written(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert in_process(*arguments.split()) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert BAD_ARGUMENTS[arguments] in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("stubbed")
def test_a_text_that_cannot_be_read_names_file_and_offset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(b"12345\xff")
    assert in_process("--corpus", path, "--out", tmp_path / "run") == 2
    errors = capsys.readouterr().err
    assert "bad.txt" in errors
    assert re.search(r"\b5\b", errors)
    assert not (tmp_path / "run").exists()


@pytest.mark.whole
@pytest.mark.usefixtures("stubbed")
def test_a_run_has_a_row_for_each_trial_whatever_became_of_it(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(stubs.BEHAVIOUR, "unigram=raises,bigram=killed,trigram=sleeps")
    out = tmp_path / "run"
    arguments = ["--models", "unigram,bigram,trigram,kn5", "--corpus", text, "--out", out, "--time-limit", "2"]
    assert in_process(*arguments) == 1
    found = {model: record.status for model, record in records_in(out).items()}
    assert found == {"unigram": "failed", "bigram": "killed", "trigram": "timed_out", "kn5": "ok"}
    errors = capsys.readouterr().err
    assert [line[:5] for line in errors.splitlines()] == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]
    assert "[2/4] bigram on a.txt: killed, signal 9 (SIGKILL)" in errors


@pytest.mark.usefixtures("stubbed")
def test_fractions_of_the_training_text_are_trials_of_their_own(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(asked.EXECUTORS, "local", stubs.InstantExecutor)
    out = tmp_path / "run"
    arguments = ["--models", "unigram,bigram", "--corpus", text, "--out", out, "--train-fractions"]
    assert in_process(*arguments, "1,0.5,1/4,1/2") == 0
    info = RunInfo.model_validate_json((out / "run.json").read_bytes())
    # each once, the smallest first
    assert info.train_fractions == (0.25, 0.5, 1.0)
    assert [trial.train_fraction for trial in info.plan] == [0.25, 0.25, 0.5, 0.5, 1.0, 1.0]
    assert len(list((out / "trials").glob("*.json"))) == 6
    assert "bigram on a.txt 1/4 of the training text: perplexity" in capsys.readouterr().err
    assert in_process(*arguments, "1/2,3/4", "--resume") == 0
    assert len(RunInfo.model_validate_json((out / "run.json").read_bytes()).reused) == 2
    assert len(list((out / "trials").glob("*.json"))) == 8


@pytest.mark.whole
@pytest.mark.usefixtures("stubbed")
def test_an_existing_folder_is_refused_resumed_or_moved_aside(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    arguments = ["--models", "unigram,bigram", "--corpus", text, "--out", out]
    assert in_process(*arguments, "--resume") == 0
    assert in_process(*arguments) == 2
    assert "exists already" in capsys.readouterr().err
    first = {path.name: path.read_bytes() for path in (out / "trials").iterdir()}
    assert in_process(*arguments, "--resume") == 0
    assert {path.name: path.read_bytes() for path in (out / "trials").iterdir()} == first
    info = RunInfo.model_validate_json((out / "run.json").read_bytes())
    assert sorted(info.reused) == sorted(Path(name).stem for name in first)
    assert in_process(*arguments, "--force") == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "run.old-1" / "trials").iterdir()} == first


@pytest.mark.usefixtures("stubbed")
def test_a_broken_run_file_is_told_once_and_the_run_goes_on(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / "run.json").write_text("{", encoding="utf-8")
    assert in_process("--models", "unigram", "--corpus", text, "--out", out, "--resume") == 0
    assert capsys.readouterr().err.count("run.json cannot be read; the run starts afresh") == 1
    assert list(records_in(out)) == ["unigram"]


@pytest.mark.usefixtures("stubbed")
def test_an_overlap_of_test_and_training_text_is_said_with_its_percentage(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--train", text, "--valid", text, "--test", text, "--models", "unigram", "--out", tmp_path / "run"]
    assert in_process(*arguments) == 0
    output, errors = capsys.readouterr()
    for said in (output, errors):
        assert said.count("100 % of the test lines stand verbatim in the training text") == 1


@pytest.mark.whole
@pytest.mark.usefixtures("stubbed")
def test_several_training_files_are_read_in_turn_and_named_as_such(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = text.with_name("b.txt")
    other.write_text("a dog ran\n" * 3, encoding="utf-8")
    joined = text.with_name("joined.txt")
    joined.write_bytes(text.read_bytes() + other.read_bytes())
    rest = ["--valid", other, "--test", other, "--models", "unigram", "--documents", "line", "--out"]
    assert in_process("--train", text, "--train", other, *rest, tmp_path / "several") == 0
    assert "unigram on a.txt+1 more" in capsys.readouterr().err
    assert in_process("--train", joined, *rest, tmp_path / "one") == 0
    infos = [RunInfo.model_validate_json((tmp_path / n / "run.json").read_bytes()) for n in ("several", "one")]
    assert [facts.name for info in infos for facts in info.corpora] == ["a.txt+1 more", "joined.txt"]
    assert infos[0].corpora[0].sha256 == infos[1].corpora[0].sha256
    assert [trial.corpus.train for info in infos for trial in info.plan] == [("a.txt", "b.txt"), "joined.txt"]
    # what is done is known again, in this order of the files and in no other
    again = ["--resume", *rest, tmp_path / "several"]
    assert in_process("--train", text, "--train", other, *again) == 0
    assert "there already" in capsys.readouterr().err
    assert in_process("--train", other, "--train", text, *again) == 0
    assert "there already" not in capsys.readouterr().err


@pytest.fixture
def sleeping(text: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path, list[str | Path]]]:
    """A runner whose third trial never ends, two of them being finished."""
    out = tmp_path / "run"
    arguments: list[str | Path] = ["--models", "unigram,bigram,trigram", "--corpus", text, "--out", out]
    process = start(*arguments, variables={stubs.BEHAVIOUR: "trigram=sleeps"})
    assert process.stderr is not None
    try:
        seen = [process.stderr.readline() for _ in range(2)]
        assert seen[1].startswith("[2/3] bigram")
        yield process, out, arguments
    finally:
        process.kill()
        process.communicate()


@pytest.mark.whole
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_interruption_keeps_what_is_finished(
    number: signal.Signals, sleeping: tuple[subprocess.Popen[str], Path, list[str | Path]]
) -> None:
    process, out, arguments = sleeping
    process.send_signal(number)
    status, output, errors = finish(process)
    assert status == 128 + number
    assert errors.splitlines()[0].startswith("error: interrupted; finished trials are in")
    assert "Traceback" not in errors
    assert f"results in {out}" in output
    assert sorted(records_in(out)) == ["bigram", "unigram"]
    assert not list(out.rglob("*.tmp"))
    assert finish(start(*arguments, "--resume"))[0] == 0
    assert sorted(records_in(out)) == ["bigram", "trigram", "unigram"]


@pytest.mark.whole
def test_after_a_kill_the_rest_is_run_and_the_finished_is_not(
    sleeping: tuple[subprocess.Popen[str], Path, list[str | Path]],
) -> None:
    process, out, arguments = sleeping
    process.kill()
    process.wait()
    before = {path.name: path.stat().st_mtime_ns for path in (out / "trials").glob("*.json")}
    status, _, errors = finish(start(*arguments, "--resume"))
    assert status == 0
    assert [line.rpartition("(")[2] for line in errors.splitlines()[:2]] == ["there already)"] * 2
    after = {path.name: path.stat().st_mtime_ns for path in (out / "trials").glob("*.json")}
    assert len(before) == 2
    assert len(after) == 3
    assert before.items() <= after.items()


@pytest.mark.whole
def test_a_second_run_into_the_same_folder_is_refused(
    sleeping: tuple[subprocess.Popen[str], Path, list[str | Path]],
) -> None:
    _, _, arguments = sleeping
    for option in ("--resume", "--force"):
        status, _, errors = finish(start(*arguments, option))
        assert status == 2
        assert "is in use by another run" in errors


@pytest.mark.whole
def test_a_full_disk_is_one_line(text: Path, tmp_path: Path) -> None:
    before = f"""{NO_REPORT}
import errno, os
from bench import store
real, written = store.write_atomically, []
def full(path, data):
    written.append(path)
    if len(written) > 2:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    real(path, data)
store.write_atomically = full
"""
    out = tmp_path / "run"
    arguments = ["--models", "unigram,bigram,trigram", "--corpus", text, "--out", out]
    status, _, errors = finish(start(*arguments, before=before))
    assert status == 1
    assert "error: cannot write trials/" in errors
    assert "No space left on device" in errors
    assert "Traceback" not in errors
    assert list(records_in(out)) == ["unigram"]


@pytest.mark.parametrize("way", ["from a command string", "from standard input"])
def test_the_runner_is_light_wherever_it_is_started_from(way: str, text: Path, tmp_path: Path) -> None:
    arguments = ["--models", "unigram", "--corpus", str(text), "--out", str(tmp_path / "run")]
    script = WITH_STUB.format(before=NO_REPORT)
    command = ["-c", script] if way == "from a command string" else ["-"]
    done = subprocess.run(
        [sys.executable, *command, *arguments],
        input=script,
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    modules = set(done.stderr.splitlines()[-1].split())
    assert "pydantic" in modules
    assert not HEAVY & modules


@pytest.mark.slow
def test_a_whole_run_with_its_report(tmp_path: Path) -> None:
    """A Chinese text in a folder with spaces; neither the console nor the locale knows such letters."""
    folder = tmp_path / "我的 文本"
    folder.mkdir()
    path = folder / "红楼梦.txt"
    path.write_text("满纸荒唐言，一把辛酸泪！都云作者痴，谁解其中味？\n" * 60, encoding="utf-8")
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": "cp1252"}
    variables = os.environ | plain | {"PYTHONPATH": str(ROOT)}
    arguments = ["--models", "unigram,bigram", "--corpus", path, "--out", folder / "结果", "--target-ppl", "5"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.run", *map(str, arguments)], capture_output=True, env=variables, check=False
    )
    output, errors = done.stdout.decode("cp1252"), done.stderr.decode("cp1252")
    assert done.returncode == 0, errors
    assert "Traceback" not in errors
    assert "no report" not in errors
    assert "bigram" in output
    check_files(folder / "结果")


def check_files(out: Path) -> None:
    """The files that a run promises, and nobody's name in any of them (`:root` is a selector of CSS)."""
    with (out / "tables" / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted(row["model"] for row in rows) == ["bigram", "unigram"]
    assert {row["corpus"] for row in rows} == {"红楼梦.txt"}
    paths = [path for path in out.rglob("*") if path.is_file()]
    assert {"run.json", "report.md", "report.html"} <= {path.name for path in paths}
    for path in paths:
        assert re.fullmatch(r"[A-Za-z0-9._-]+", path.name)
        if path.suffix == ".png":
            continue  # compressed: two letters of a short name stand in it by chance
        content = path.read_bytes()
        for secret in (platform.node(), getpass.getuser(), str(out.parent), str(Path.home()), str(ROOT)):
            assert not re.search(rb"(?<![\w:])" + re.escape(secret.encode()) + rb"(?![\w])", content), (path, secret)


@pytest.mark.whole
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_an_output_that_takes_no_more_is_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "bench.run", "--models", "unigram", "--out", str(tmp_path / "run")],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "No space left on device; trials that were finished are kept" in done.stderr
