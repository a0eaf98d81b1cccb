"""The rules of measuring (docs/measuring.md): for each, the test that fails when it is broken, and a way to break it.

`test_rules.py` breaks each rule and sees the test fail.  A breach is one change to code that is right.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import math
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from bench import agreement, energy, environment, measure, plan, stats, throughput
from bench.measured import Measured
from bench.profiling import guesses
from bench.records import RULES_VERSION
from bench.report import across, notices, reading, rows, scaling, tables
from lmzoo import budget, corpus, driver, evaluation, tally

Breach = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule: the section of docs/measuring.md that states it, what it says, its test, and how to break it.

    `needs_torch`: its test does.
    """

    section: str
    says: str
    test: str
    breach: Breach
    needs_torch: bool = False


def replaced(place: Any, name: str, wrong: Any) -> Breach:
    """A breach that puts something wrong in place of a function, a constant or a property."""
    return lambda monkeypatch: monkeypatch.setattr(place, name, wrong)


# --- breaches


def train_on_test(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_parts = corpus.cut_parts

    def leaking(*arguments: Any, **options: Any) -> Any:
        cut = cut_parts(*arguments, **options)
        both = corpus.Segments.of([*cut.parts["train"], *cut.parts["test"]])
        return dataclasses.replace(cut, parts={**cut.parts, "train": both})

    monkeypatch.setattr(corpus, "cut_parts", leaking)


def validate_on_test(monkeypatch: pytest.MonkeyPatch) -> None:
    start = driver.Training.__init__

    def starting(self: Any, trainer: Any, text: Any, *arguments: Any, **options: Any) -> None:
        start(self, trainer, text, *arguments, **options)
        self._valid_head = text.test

    monkeypatch.setattr(driver.Training, "__init__", starting)


def sum_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    token_nats = evaluation.token_nats
    monkeypatch.setattr(evaluation, "token_nats", lambda *a, **o: token_nats(*a, **o).astype(np.float32))


def drop_the_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = evaluation._chunks

    def shorter(*arguments: Any) -> Any:
        for positions_BxL, mask_BxL, state in chunks(*arguments):
            mask_BxL[:, -1:] = False
            yield positions_BxL, mask_BxL, state

    monkeypatch.setattr(evaluation, "_chunks", shorter)


def average_the_averages(monkeypatch: pytest.MonkeyPatch) -> None:
    add = tally.Tally.__add__

    def averaging(self: tally.Tally, other: tally.Tally) -> tally.Tally:
        both = add(self, other)
        if not self.n_tokens or not other.n_tokens:
            return both
        mean = (self.nll_nats / self.n_tokens + other.nll_nats / other.n_tokens) / 2
        return dataclasses.replace(both, nll_nats=mean * both.n_tokens)

    monkeypatch.setattr(tally.Tally, "__add__", averaging)


def call_every_normalizer_lossless(monkeypatch: pytest.MonkeyPatch) -> None:
    named = evaluation.named_normalizer
    monkeypatch.setattr(evaluation, "named_normalizer", lambda name: dataclasses.replace(named(name), lossless=True))


def look_a_token_late(monkeypatch: pytest.MonkeyPatch) -> None:
    each_distribution = guesses.each_distribution

    def late(*arguments: Any, **options: Any) -> Any:
        for positions_BxL, mask_BxL, logprobs_BxLxV in each_distribution(*arguments, **options):
            yield positions_BxL, mask_BxL, np.roll(logprobs_BxLxV, 1, axis=1)

    monkeypatch.setattr(guesses, "each_distribution", late)


def halve_the_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    interval = stats.ratio_interval

    def narrower(*arguments: Any, **options: Any) -> stats.Interval:
        found = interval(*arguments, **options)
        assert found is not None
        quarter = (found.high - found.low) / 4
        return stats.Interval(found.low + quarter, found.high - quarter)

    monkeypatch.setattr(stats, "ratio_interval", narrower)


def charge_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated = driver.Training._evaluated

    def charged(self: Any, split: Any) -> Any:
        with self.budget.watch.running():
            return evaluated(self, split)

    monkeypatch.setattr(driver.Training, "_evaluated", charged)


def forget_the_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    start = driver.Training.__init__

    def starting(self: Any, *arguments: Any, **options: Any) -> None:
        start(self, *arguments, **options)
        self._rng = np.random.default_rng()

    monkeypatch.setattr(driver.Training, "__init__", starting)


def keep_the_best_always(monkeypatch: pytest.MonkeyPatch) -> None:
    validate = driver.Training._validate

    def validating(self: Any, *, is_last: bool) -> Any:
        validation = validate(self, is_last=is_last)
        if self.budget.seconds is None:
            self._keep_best(validation)
        return validation

    monkeypatch.setattr(driver.Training, "_validate", validating)


def start_with_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    run = driver.Training.run

    def late(self: Any) -> Any:
        self.budget.watch.go_on_from(1.0)
        return run(self)

    monkeypatch.setattr(driver.Training, "run", late)


def queue_and_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from lmzoo.neural.training import NeuralTrainer

    monkeypatch.setattr(NeuralTrainer, "_wait", lambda _: None)


def hide_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    train = measure.Trial._train

    def training(self: Any, text: Any) -> Any:
        model = train(self, text)
        self._compile_s = None
        return model

    monkeypatch.setattr(measure.Trial, "_train", training)


def start_the_wall_clock_late(monkeypatch: pytest.MonkeyPatch) -> None:
    start = measure.Trial.__init__

    def starting(self: Any, spec: Any, wall: Callable[[], float], *arguments: Any) -> None:
        begun_s = wall()
        start(self, spec, lambda: wall() - begun_s, *arguments)

    monkeypatch.setattr(measure.Trial, "__init__", starting)


def repeat_the_same_text(monkeypatch: pytest.MonkeyPatch) -> None:
    stretch = throughput._Walk.stretch

    def first(self: Any, n_tokens: int) -> Any:
        self._at = 0
        return stretch(self, n_tokens)

    monkeypatch.setattr(throughput._Walk, "stretch", first)


def start_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    def rates(model: Any, split: Any, *, new_watch: Any) -> list[float]:
        walk = throughput._Walk(split)
        return [throughput._scoring_rate(model, walk, 1000, new_watch()) for _ in range(throughput.N_REPEATS)]

    monkeypatch.setattr(throughput, "scoring_rates", rates)


def trace_allocations(monkeypatch: pytest.MonkeyPatch) -> None:
    rate = throughput._scoring_rate

    def traced(*arguments: Any) -> float:
        tracemalloc.start()
        try:
            return rate(*arguments)
        finally:
            tracemalloc.stop()

    monkeypatch.setattr(throughput, "_scoring_rate", traced)


def run_first(test: str, script: str, first: str) -> Breach:
    """A breach inside a process that a test starts: what its script runs before anything else."""

    def breach(monkeypatch: pytest.MonkeyPatch) -> None:
        module = importlib.import_module(test)
        monkeypatch.setattr(module, script, first + getattr(module, script))

    return breach


PEAK_OF_THE_PARENT = """
import os
from bench import memory
memory.peak_rss_bytes = lambda: memory._proc_status_bytes(str(os.getppid()), "VmHWM")
"""


def read_before_the_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    load = measure.Trial._import_libraries

    def loading(self: Any) -> None:
        measure.read_corpus(self.spec.corpus)
        load(self)

    monkeypatch.setattr(measure.Trial, "_import_libraries", loading)


def show_every_device(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = environment.trial_environment
    monkeypatch.setattr(environment, "trial_environment", lambda n, device, **o: variables(n, "cuda", **o))


def forget_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    describe = environment.describe
    monkeypatch.setattr(
        environment, "describe", lambda *a, **o: {k: v for k, v in describe(*a, **o).items() if "git" not in k}
    )


def count_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    def running(self: Any) -> Any:
        self._has_run = True
        self._look()
        return contextlib.nullcontext()

    counted = energy.EnergyMeter.energy

    def at_the_end(self: Any) -> Any:
        self._look()
        return counted(self)

    monkeypatch.setattr(energy.EnergyMeter, "running", running)
    monkeypatch.setattr(energy.EnergyMeter, "energy", at_the_end)


def say_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    describe = environment.describe
    host = {"platform": f"{environment.platform.node()} at {environment.Path.home()}"}
    monkeypatch.setattr(environment, "describe", lambda *a, **o: describe(*a, **o) | host)


def rank_unlike_texts_together(monkeypatch: pytest.MonkeyPatch) -> None:
    group = rows._group

    def one(*arguments: Any) -> rows.Group:
        same = {"sha256": "", "vocab_fingerprint": "", "documents": "", "tokenizer": "", "normalize": ""}
        return dataclasses.replace(group(*arguments), **same)

    monkeypatch.setattr(rows, "_group", one)


def rank_amounts_together(monkeypatch: pytest.MonkeyPatch) -> None:
    group = rows._group
    whole = {"train_fraction": 1.0}
    monkeypatch.setattr(rows, "_group", lambda *arguments: dataclasses.replace(group(*arguments), **whole))


def give_fractions_a_vocabulary_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with_train_fraction = corpus.Corpus.with_train_fraction

    def own(whole: corpus.Corpus, fraction: float) -> corpus.Corpus:
        part = with_train_fraction(whole, fraction)
        seen = [i for i, n in enumerate(part.vocab.counts_V) if n or i < 2]
        tokens = tuple(part.vocab.tokens[i] for i in seen)
        vocab = dataclasses.replace(part.vocab, tokens=tokens, counts_V=part.vocab.counts_V[seen])
        return dataclasses.replace(part, vocab=vocab)

    monkeypatch.setattr(corpus.Corpus, "with_train_fraction", own)


def leave_failures_out(monkeypatch: pytest.MonkeyPatch) -> None:
    read_run = reading.read_run

    def without(folder: Any) -> reading.Run:
        run = read_run(folder)
        return dataclasses.replace(run, records=tuple(r for r in run.records if r.status == "ok"))

    monkeypatch.setattr("tests.bench.test_report_tables.read_run", without)


def accept_any_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    read_record = reading._read_record

    def newest(path: Any) -> Any:
        record = read_record(path)
        return record and record.model_copy(update={"rules_version": RULES_VERSION})

    monkeypatch.setattr(reading, "_read_record", newest)


def take_tanh_for_sigmoid(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch, "sigmoid", torch.tanh)


# --- the rules

CORPUS, TALLY, DRIVER = (f"tests/lmzoo/test_{name}.py" for name in ("corpus", "tally", "driver"))
EVALUATION = "tests/lmzoo/test_evaluation.py"
STATS, TABLES, PLAN, MEASURE = (f"tests/bench/test_{name}.py" for name in ("stats", "report_tables", "plan", "measure"))
THROUGHPUT, ENVIRONMENT = (f"tests/bench/test_{name}.py" for name in ("throughput", "environment"))
CLOCKS, ISOLATION, ENERGY = (f"tests/bench/test_{name}.py" for name in ("clocks", "isolation", "energy"))
AGREEMENT, DEVICES, PROFILING = (f"tests/bench/test_{name}.py" for name in ("agreement", "report_devices", "profiling"))

RULES = (
    Rule(
        section="Same work",
        says="only rows with the same text, vocabulary and cut into documents are compared",
        test=f"{TABLES}::test_rows_of_unlike_texts_are_never_tested",
        breach=rank_unlike_texts_together,
    ),
    Rule(
        section="Same work",
        says="the vocabulary is made of the training text alone",
        test=f"{CORPUS}::TestVocabularyIsOfTheTrainingText",
        breach=train_on_test,
    ),
    Rule(
        section="Same work",
        says="training looks at the validation text and never at the test text",
        test=f"{DRIVER}::TestTrain::test_the_test_text_is_never_looked_at",
        breach=validate_on_test,
    ),
    Rule(
        section="Same work",
        says="perplexity is given with and without unknown words, sum and number matching",
        test=f"{TALLY}::TestPerplexity::test_without_oov_sum_and_count_match",
        breach=replaced(
            tally.Tally, "perplexity_no_oov", property(lambda t: math.exp((t.nll_nats - t.oov_nll_nats) / t.n_tokens))
        ),
    ),
    Rule(
        section="Same work",
        says="records made under different versions of the rules never share a table",
        test=f"{TABLES}::test_records_under_other_rules_share_no_table",
        breach=accept_any_rules,
    ),
    Rule(
        section="Quality",
        says="nats are summed in double precision",
        test=f"{EVALUATION}::TestTally::test_nats_are_summed_in_double_precision",
        breach=sum_in_single_precision,
    ),
    Rule(
        section="Quality",
        says="every token is scored once",
        test=f"{EVALUATION}::TestBatchesAndChunks::test_every_token_is_scored_once_given_all_before_it",
        breach=drop_the_tail,
    ),
    Rule(
        section="Quality",
        says="sums first, divided last",
        test=f"{TALLY}::TestAdding::test_averages_are_never_averaged",
        breach=average_the_averages,
    ),
    Rule(
        section="Quality",
        says="nothing is divided by line ends that the model did not predict",
        test=f"{EVALUATION}::TestLineEndsThatAreNotPredicted",
        breach=replaced(corpus.Split, "ends_known", property(lambda split: True)),
    ),
    Rule(
        section="Quality",
        says="every <unk> is charged its spelling",
        test=f"{EVALUATION}::TestTally::test_bits_by_hand_with_the_charge_for_spelling",
        breach=replaced(tally.Tally, "_bits", lambda t: t.nll_nats / math.log(2)),
    ),
    Rule(
        section="Quality",
        says="no bits per byte where the normaliser loses something",
        test=f"{EVALUATION}::TestTally::test_a_normaliser_that_loses_something_has_no_bits_per_byte",
        breach=call_every_normalizer_lossless,
    ),
    Rule(
        section="Quality",
        says="an interval rests on at least 50 pieces of a long document",
        test=f"{EVALUATION}::TestBlocks::test_fewer_documents_are_cut_into_enough_pieces",
        breach=replaced(evaluation, "PIECES", 20),
    ),
    Rule(
        section="Quality",
        says="95 % of the intervals cover the truth",
        test=f"{STATS}::test_intervals_cover_the_truth",
        breach=halve_the_intervals,
    ),
    Rule(
        section="Quality",
        says="models that differ by chance alone are called different in 5 % of cases at most",
        test=f"{STATS}::test_equal_models_are_called_different_in_about_5_percent",
        breach=replaced(stats, "student_t_p", lambda t, df: math.erfc(abs(t))),
    ),
    Rule(
        section="Quality",
        says="across tokenizers, pieces that are not the same text make no pair",
        test="tests/bench/test_report_across.py::test_pieces_that_are_not_the_same_make_no_pair",
        breach=replaced(across, "pieces_test", lambda a, b: stats.paired_test(a[0], b[0], a[1])),
    ),
    Rule(
        section="Quality",
        says="sums by kind of token are those of the test text",
        test=f"{PROFILING}::test_a_profile_that_does_not_add_up_makes_a_record_unreadable",
        breach=replaced(Measured, "_sums_of_profile", lambda measured: iter(())),
    ),
    Rule(
        section="Quality",
        says="a passage is told with all that stood before it in its document",
        test=f"{PROFILING}::test_the_passage_is_that_of_the_evaluation",
        breach=look_a_token_late,
    ),
    Rule(
        section="Quality",
        says="a model below the known entropy of its text is a fault",
        test="tests/bench/test_report_excess.py::test_what_is_below_the_source_is_said_loudly",
        breach=replaced(notices, "is_below_source", lambda record: False),
    ),
    Rule(
        section="Fractions of the training text",
        says="models that learned from different amounts are never ranked together",
        test=f"{TABLES}::test_fractions_of_the_training_text_are_groups_of_their_own",
        breach=rank_amounts_together,
    ),
    Rule(
        section="Fractions of the training text",
        says="the vocabulary is the same for all",
        test="tests/lmzoo/test_corpus_fraction.py::TestFraction::test_only_the_amount_of_training_text_differs",
        breach=give_fractions_a_vocabulary_of_their_own,
    ),
    Rule(
        section="Fractions of the training text",
        says="a slope is fitted where three amounts of text went well",
        test="tests/bench/test_report_scaling.py::TestSeries::test_a_slope_takes_three_points",
        breach=replaced(scaling, "MIN_POINTS", 4),
    ),
    Rule(
        section="Two clocks",
        says="the training clock stands still during validation",
        test=f"{MEASURE}::test_validation_is_not_charged_and_training_is",
        breach=charge_validation,
    ),
    Rule(
        section="Two clocks",
        says="the training clock starts when the model first sees training tokens",
        test=f"{CLOCKS}::test_training_seconds_are_those_of_learning",
        breach=start_with_the_process,
    ),
    Rule(
        section="Two clocks",
        says="the device has finished at both ends",
        test=f"{CLOCKS}::TestNetworksOnADevice::test_the_device_is_idle_whenever_the_clock_stops",
        breach=queue_and_go_on,
        needs_torch=True,
    ),
    Rule(
        section="Two clocks",
        says="compile time is also given alone",
        test=f"{CLOCKS}::test_training_seconds_are_those_of_learning",
        breach=hide_the_compiler,
    ),
    Rule(
        section="Two clocks",
        says="the wall clock runs from the start of the process",
        test=f"{CLOCKS}::test_the_wall_clock_runs_from_the_start_of_the_process",
        breach=start_the_wall_clock_late,
    ),
    Rule(
        section="Speed to perplexity",
        says="validations follow one schedule, at 0.25 s and then each fourth root of two",
        test=f"{DRIVER}::TestSchedule",
        breach=replaced(driver, "VALIDATIONS_PER_DOUBLING", 2),
    ),
    Rule(
        section="Speed to perplexity",
        says="they are taken on the first 100,000 validation tokens",
        test=f"{DRIVER}::TestSchedule::test_only_the_head_of_the_validation_text_is_scored",
        breach=replaced(driver.Split, "head", lambda split, n_tokens: split),
    ),
    Rule(
        section="Speed to perplexity",
        says="a target is hit in a bracket of two validations",
        test=f"{STATS}::test_a_target_is_hit_between_two_validations",
        breach=lambda monkeypatch: monkeypatch.setattr(
            stats.Crossing, "after_s", property(lambda c: c.by_s, lambda c, value: None), raising=False
        ),
    ),
    Rule(
        section="Speed to perplexity",
        says="the perplexities of the run's counting models are targets",
        test=f"{TABLES}::test_targets_are_those_given_and_the_counting_models",
        breach=replaced(tables, "counting_levels", lambda rows: {}),
    ),
    Rule(
        section="Speed to perplexity",
        says="of five seeds and more the fastest and the slowest are dropped",
        test=f"{STATS}::test_several_seeds_become_one_time",
        breach=replaced(stats, "_MANY_SEEDS", 50),
    ),
    Rule(
        section="Speed to perplexity",
        says="counting models run once",
        test=f"{PLAN}::test_counting_models_run_once_and_first_whatever_the_devices_and_seeds",
        breach=replaced(plan, "_repetitions", lambda m, devices, n: ((d, s) for d in devices for s in range(n))),
    ),
    Rule(
        section="Reproducible",
        says="the same seed gives the same model",
        test="tests/lmzoo/neural/test_training.py::test_the_same_seed_gives_the_same_bits",
        breach=forget_the_generator,
        needs_torch=True,
    ),
    Rule(
        section="Reproducible",
        says="with steps or epochs the last weights are kept",
        test=f"{DRIVER}::TestKept::test_the_last_weights_otherwise",
        breach=keep_the_best_always,
    ),
    Rule(
        section="Reproducible",
        says="under a budget of seconds the step of every change of a schedule is recorded",
        test="tests/lmzoo/neural/test_schedules.py::test_every_phase_of_the_cosine_is_told_with_its_step",
        breach=replaced(budget.Budget, "note_change", lambda *_, **__: None),
        needs_torch=True,
    ),
    Rule(
        section="Throughput and memory",
        says="a warm-up comes first",
        test=f"{THROUGHPUT}::test_what_first_calls_cost_is_in_no_figure",
        breach=start_cold,
    ),
    Rule(
        section="Throughput and memory",
        says="at least five repeats",
        test=f"{THROUGHPUT}::test_each_repeat_lasts_long_enough_and_the_first_passes_warm_up",
        breach=replaced(throughput, "N_REPEATS", 3),
    ),
    Rule(
        section="Throughput and memory",
        says="repeats of at least a tenth of a second",
        test=f"{THROUGHPUT}::test_each_repeat_lasts_long_enough_and_the_first_passes_warm_up",
        breach=replaced(throughput, "REPEAT_S", 0.05),
    ),
    Rule(
        section="Throughput and memory",
        says="no repeat scores what an earlier one has scored",
        test=f"{THROUGHPUT}::test_a_model_gains_nothing_by_what_an_earlier_repeat_left",
        breach=repeat_the_same_text,
    ),
    Rule(
        section="Throughput and memory",
        says="memory is never traced while time is taken",
        test=f"{ISOLATION}::test_memory_is_never_traced_while_time_is_taken",
        breach=trace_allocations,
    ),
    Rule(
        section="Throughput and memory",
        says="a trial's memory is its own high-water mark",
        test=f"{ISOLATION}::test_a_trials_memory_is_its_own",
        breach=run_first("tests.bench.test_isolation", "HOLDING", PEAK_OF_THE_PARENT),
    ),
    Rule(
        section="Throughput and memory",
        says="the baseline is taken after the imports and before the text",
        test=f"{ISOLATION}::TestOrder",
        breach=read_before_the_baseline,
    ),
    Rule(
        section="Throughput and memory",
        says="a trial that needs no torch loads nothing of the kind",
        test="tests/bench/test_worker.py::test_a_counting_trial_loads_nothing_heavy_and_stays_small",
        breach=run_first("tests.bench.test_worker", "RUN_AND_LIST_MODULES", "import click\n"),
    ),
    Rule(
        section="Throughput and memory",
        says="the number of threads is set before a library loads",
        test=f"{ENVIRONMENT}::test_every_thread_variable_holds_the_number_and_a_cpu_trial_sees_no_gpu",
        breach=replaced(environment, "THREAD_VARIABLES", ("OMP_NUM_THREADS", "MKL_THREADS")),
    ),
    Rule(
        section="Throughput and memory",
        says="CPUs that the process may not use are not counted",
        test=f"{ISOLATION}::test_cpus_that_may_not_be_used_are_not_counted",
        breach=replaced(environment, "n_cpus_usable", lambda: 64),
    ),
    Rule(
        section="Devices",
        says="CUDA is seen by the trials alone that use it",
        test=f"{ENVIRONMENT}::test_every_thread_variable_holds_the_number_and_a_cpu_trial_sees_no_gpu",
        breach=show_every_device,
    ),
    Rule(
        section="Devices",
        says="the same weights score the same on the device and on the CPU",
        test=f"{AGREEMENT}::test_the_difference_is_that_of_the_scores",
        breach=replaced(agreement, "largest_difference", lambda nats_N, others_N: 0.0),
    ),
    Rule(
        section="Devices",
        says="a difference beyond rounding is a warning",
        test=f"{AGREEMENT}::test_the_difference_is_that_of_the_scores",
        breach=replaced(agreement, "TOLERANCE_NATS", 1.0),
    ),
    Rule(
        section="Devices",
        says="a device that others used is a warning",
        test=f"{DEVICES}::test_a_shared_device_is_a_warning",
        breach=replaced(notices, "about_devices", lambda records: []),
    ),
    Rule(
        section="Energy",
        says="joules are those of the training alone",
        test=f"{MEASURE}::test_energy_is_that_of_the_training_alone",
        breach=count_everything,
    ),
    Rule(
        section="Energy",
        says="there is no figure where the machine was shared",
        test=f"{ENERGY}::test_beside_other_load_there_is_no_figure",
        breach=replaced(energy, "_MOST_OTHERS", 0.5),
    ),
    Rule(
        section="Energy",
        says="a counter that starts again loses nothing",
        test=f"{ENERGY}::test_long_trainings_are_looked_at_before_a_counter_can_start_again_twice",
        breach=replaced(energy, "_LOOK_EVERY_S", 1e9),
    ),
    Rule(
        section="Energy",
        says="every figure is labelled with its source",
        test=f"{DEVICES}::test_joules_stand_in_the_table_of_costs",
        breach=replaced(tables, "_sources", lambda record: []),
    ),
    Rule(
        section="Environment",
        says="the commit and the rest that decides are recorded",
        test=f"{ISOLATION}::test_what_a_record_says_of_the_machine_is_all_there",
        breach=forget_the_commit,
    ),
    Rule(
        section="Throughput and memory",
        says="a figure whose quartiles lie more than 10 % of it apart is unstable",
        test=f"{THROUGHPUT}::test_quartiles_and_the_word_unstable",
        breach=replaced(throughput, "_UNSTABLE_SHARE", 1.0),
    ),
    Rule(
        section="Environment",
        says="names of users, hosts and folders are not recorded",
        test=f"{ENVIRONMENT}::test_nothing_says_whose_machine_it_is",
        breach=say_the_host,
    ),
    Rule(
        section="Failures are results",
        says="a failure is a row with its reason",
        test=f"{TABLES}::test_every_failure_is_a_row_with_its_reason",
        breach=leave_failures_out,
    ),
    Rule(
        section="Failures are results",
        says="scores that are no distribution have no perplexity",
        test=f"{EVALUATION}::TestTally::test_scores_that_are_no_distribution_have_no_perplexity",
        breach=replaced(tally.Tally, "_distribution", lambda t: t),
    ),
    Rule(
        section="Honest comparisons",
        says="a model that adapts to the text is starred everywhere",
        test="tests/bench/test_report_pages.py::test_adaptive_models_are_starred",
        breach=replaced(rows.Row, "is_adaptive", False),
    ),
    Rule(
        section="Honest comparisons",
        says="the cells written out here are torch's layers in values and gradients",
        test="tests/lmzoo/neural/test_cells.py::test_a_cell_is_torchs_layer_in_values_and_gradients",
        breach=take_tanh_for_sigmoid,
        needs_torch=True,
    ),
)
