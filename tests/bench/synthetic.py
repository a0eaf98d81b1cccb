"""Synthetic runs for the tests of the report: records of any status, written to a folder as a run writes them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.records import (
    CorpusFacts,
    CorpusSpec,
    CurvePoint,
    Environment,
    Figure,
    Measured,
    Memory,
    Parts,
    Repeats,
    RunInfo,
    Status,
    TallyRecord,
    TrialRecord,
    TrialSpec,
)
from bench.sealed import sealed

STARTED = "2026-01-02T03:04:05Z"

ENVIRONMENT = Environment(
    python="3.11.9",
    platform="Linux",
    cpu_model="a processor",
    n_cpus_usable=2,
    load_1min=0.5,
    memory_total_bytes=8 * 2**30,
    versions={"numpy": "2.1.0"},
    thread_variables={"OMP_NUM_THREADS": "2"},
    git_commit="0123456789abcdef",
    git_dirty=False,
)


def facts(name: str = "genesis", **changes: Any) -> CorpusFacts:
    values: dict[str, Any] = {
        "name": name,
        "normalize": "letters",
        "tokenizer": "char",
        "documents": "file",
        "min_freq": 1,
        "sha256": "ab" * 32,
        "vocab_fingerprint": "f00d",
        "n_symbols": 28,
        "n_train_tokens": 160_000,
        "n_valid_tokens": 20_000,
        "n_test_tokens": 20_000,
        "n_test_oov": 0,
        "n_train_documents": 1,
        "n_test_documents": 1,
        "n_blank_lines": 0,
        "n_markers": 0,
        "test_overlap": 0.0,
    }
    return CorpusFacts(**(values | changes))


def trial(model: str, *, seed: int = 0, corpus: CorpusFacts | None = None, **changes: Any) -> TrialSpec:
    corpus = corpus or facts()
    values: dict[str, Any] = {
        "trial_id": f"{hash_of(model):08x}-{seed}-{changes.get('device', 'cpu')}",
        "content_key": f"{model}/{seed}",
        "model": model,
        "spec": model,
        "options": {},
        "family": "counting" if model in ("unigram", "bigram", "trigram", "kn5") else "neural",
        "corpus": CorpusSpec(name=corpus.name),
        "corpus_sha256": corpus.sha256,
        "seed": seed,
    }
    return TrialSpec(**(values | changes))


def hash_of(text: str) -> int:
    """A number that is the same in every process, unlike `hash`."""
    return zlib.crc32(text.encode("utf-8"))


def repeats(median: float, *, unstable: bool = False) -> Repeats:
    spread = 0.2 if unstable else 0.01
    return Repeats(
        values=(median,) * 5,
        median=median,
        low_quartile=median * (1 - spread),
        high_quartile=median * (1 + spread),
        unstable=unstable,
    )


def tally(nats: Sequence[float], n_tokens: int, *, n_oov: int = 0) -> TallyRecord:
    total = math.fsum(nats)
    perplexity = Figure.of(math.exp(total / n_tokens) if math.isfinite(total) else math.inf, "impossible tokens")
    bits = Figure.of(total / n_tokens / math.log(2), "impossible tokens")
    return TallyRecord(
        nll_nats=Figure.of(total, "impossible tokens"),
        n_tokens=n_tokens,
        n_chars=n_tokens,
        n_bytes=n_tokens,
        n_oov=n_oov,
        n_zero=sum(map(math.isinf, nats)),
        perplexity=perplexity,
        perplexity_no_oov=perplexity,
        bits_per_char=bits,
        bits_per_byte=Figure.of(None, "the normaliser loses some of the text"),
    )


def measured(nats: Sequence[float], tokens: Sequence[int], *, n_oov: int = 0, **changes: Any) -> Measured:
    scored = tally(nats, sum(tokens), n_oov=n_oov)
    values: dict[str, Any] = {
        "test": scored,
        "valid": scored,
        "top1_accuracy": Figure.of(0.5),
        "block_nats": tuple(None if math.isinf(n) else n for n in nats),
        "block_tokens": tuple(tokens),
        "block_chars": tuple(map(float, tokens)),
        "block_spelling_nats": (0.0,) * len(tokens),
        "n_params": 10_000,
        "model_bytes": Figure.of(40_000.0),
        "train_tokens": 160_000,
        "train_tokens_per_s": 1e5,
        "eval_tokens_per_s": repeats(2e5),
        "next_token_us": repeats(30.0),
        "next_token_us_p99": 60.0,
        "kernel": "numpy",
        "kept": "last",
    }
    return Measured(**(values | changes))


def curve(levels: Sequence[float], *, first_s: float = 0.25) -> tuple[CurvePoint, ...]:
    times = [first_s * 2 ** (k / 4) for k in range(len(levels))]
    return tuple(
        CurvePoint(train_s=t, wall_s=t + 1, train_tokens=int(1000 * t), valid_perplexity=Figure.of(level))
        for t, level in zip(times, levels, strict=True)
    )


def ok(
    spec: TrialSpec,
    perplexity: float,
    *,
    corpus: CorpusFacts | None = None,
    n_blocks: int = 100,
    levels: Sequence[float] | None = None,
    infinite_blocks: int = 0,
    memory_mib: int = 60,
    changes: dict[str, Any] | None = None,
    measures: dict[str, Any] | None = None,
) -> TrialRecord:
    """A finished trial whose test perplexity is near the one given; models share the blocks' difficulty."""
    rng = np.random.default_rng([spec.seed, hash_of(spec.model)])
    difficulty = np.random.default_rng(7).normal(0, 0.1, n_blocks)
    nats = 200 * (math.log(perplexity) + difficulty + rng.normal(0, 0.01, n_blocks))
    nats[:infinite_blocks] = math.inf
    read = corpus or facts()
    found = measured(nats.tolist(), [200] * n_blocks, n_oov=read.n_test_oov, **(measures or {}))
    values: dict[str, Any] = {
        "trial": spec,
        "status": "ok",
        "corpus": as_scored(read, found),
        "curve": curve([perplexity] if levels is None else levels),
        "measured": found,
        "memory": Memory(peak_rss_bytes=memory_mib * 2**20, baseline_rss_bytes=40 * 2**20),
        "parts": Parts(start_and_imports_s=0.5, load_s=0.1, train_s=3.0, validate_s=0.5, test_s=0.5, throughput_s=1.0),
        "train_s": 3.0,
        "wall_s": 6.0,
        "environment": ENVIRONMENT,
        "started_utc": STARTED,
    }
    return TrialRecord(**(values | (changes or {})))


def as_scored(corpus: CorpusFacts, found: Measured) -> CorpusFacts:
    """A text whose test part has as many tokens as were scored."""
    return corpus.model_copy(update={"n_test_tokens": found.test.n_tokens, "n_test_oov": found.test.n_oov})


def with_test(record: TrialRecord, changes: dict[str, Any]) -> TrialRecord:
    """The record with other figures of the test text, checked as one that is read."""
    assert record.measured is not None
    test = record.measured.test.model_copy(update=changes)
    measured = Measured.model_validate(record.measured.model_dump() | {"test": test.model_dump()})
    corpus = record.corpus and as_scored(record.corpus, measured)
    return record.model_copy(update={"measured": measured, "corpus": corpus})


def failed(spec: TrialSpec, status: Status, reason: str, **changes: Any) -> TrialRecord:
    values: dict[str, Any] = {"trial": spec, "status": status, "reason": reason, "wall_s": 2.0, "started_utc": STARTED}
    return TrialRecord(**(values | changes))


def info(records: Sequence[TrialRecord], **changes: Any) -> RunInfo:
    corpora = {r.corpus.name: r.corpus for r in records if r.corpus} or {"genesis": facts()}
    values: dict[str, Any] = {
        "run_id": "a-run",
        "command": "python -m bench.run --models all",
        "started_utc": STARTED,
        "plan": tuple(record.trial for record in records),
        "corpora": tuple(corpora.values()),
        "environment": ENVIRONMENT,
    }
    return RunInfo(**(values | changes))


def write(folder: Path, records: Sequence[TrialRecord], **changes: Any) -> Path:
    """A run's folder, as `bench.run` leaves it before the report is built."""
    (folder / "trials").mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(info(records, **changes).model_dump_json(), encoding="utf-8")
    for record in records:
        (folder / "trials" / f"{record.trial.trial_id}.json").write_bytes(sealed(record))
    return folder


def usual(seeds: int = 1) -> list[TrialRecord]:
    """Eleven models, all well, as the default run has them."""
    counting = [("unigram", 17.0), ("bigram", 9.5), ("trigram", 6.6), ("kn5", 4.4)]
    neural = [
        ("mlp", 5.6, 180),
        ("rnn-scratch", 5.1, 190),
        ("gru-scratch", 4.9, 195),
        ("lstm-scratch", 4.95, 200),
        ("rnn-cudnn", 4.85, 310),
        ("gru-cudnn", 4.42, 330),
        ("lstm-cudnn", 4.36, 340),
    ]
    records = [
        ok(
            trial(name),
            perplexity,
            levels=[perplexity * 1.02],
            measures={
                "n_params": 30 * 10 ** (i + 1),
                "model_bytes": Figure.of(100.0 * 9**i),
                "next_token_us": repeats(4.0 * (i + 1)),
                "eval_tokens_per_s": repeats(3e6 / (i + 1), unstable=i == 2),
            },
            memory_mib=45 + 3 * i,
        )
        for i, (name, perplexity) in enumerate(counting)
    ]
    for i, (name, perplexity, memory_mib) in enumerate(neural):
        for seed in range(seeds):
            floor = perplexity * 1.02 + 0.02 * seed
            levels = [floor * (1 + 4 * math.exp(-k / (5 + i))) for k in range(24)]
            size = 1e5 * (1 + i / 3)
            records.append(
                ok(
                    trial(name, seed=seed),
                    perplexity + 0.02 * seed,
                    levels=levels,
                    memory_mib=memory_mib,
                    measures={
                        "n_params": int(size),
                        "model_bytes": Figure.of(4 * size),
                        "next_token_us": repeats(150.0 + 13 * i),
                        "eval_tokens_per_s": repeats(2e5 + 3e4 * i),
                    },
                )
            )
    return records
