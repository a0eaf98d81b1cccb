"""What each conformance check must catch: a table of checks and faults, of models, of trainers and of readers of files.

Every fault is one change to `bigram.AddKBigram`, which is right.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lmzoo import storage
from lmzoo.budget import Budget
from lmzoo.corpus import Split, corpus_from_texts
from lmzoo.errors import ForeignFileError
from lmzoo.interface import Progress
from lmzoo.registry import ModelEntry
from lmzoo.vocab import Vocab
from tests import broken
from tests.bigram import AddKBigram, toy_split

# --- faults of the reader of files


def accept_cut_files(data: bytes, source: str) -> Any:
    """A reader that makes up what is missing at the end of a file."""
    whole = storage.to_bytes(AddKBigram.counted(toy_split()))
    return _read(whole if whole.startswith(data) and data else data, source)


def accept_any_file(data: bytes, source: str) -> Any:
    """A reader that fails at foreign files like any other code that reads bytes."""
    try:
        return _read(data, source)
    except ForeignFileError as error:
        raise ValueError("unexpected bytes") from error


def accept_later_formats(data: bytes, source: str) -> Any:
    """A reader that takes the format of tomorrow for its own."""
    return _read(data.replace(b'"format":%d0' % storage.FORMAT, b'"format": %d' % storage.FORMAT), source)


_read = storage.from_bytes


# --- training


@dataclass(frozen=True, kw_only=True)
class ToyConfig:
    """Options of the toy trainer: `fault` names what is wrong with it."""

    fault: str = "none"


class ToyTrainer:
    """Counts its text in one go, with one fault or none."""

    n_made = 0

    def __init__(self, config: ToyConfig, vocab: Vocab, device: str) -> None:
        ToyTrainer.n_made += 1
        self.fault = config.fault
        self.model: AddKBigram = AddKBigram(vocab, np.zeros((len(vocab) + 1, len(vocab))))

    def steps(self, train: Split, valid: Split, rng: np.random.Generator, budget: Budget) -> Iterator[Progress]:
        if self.fault == "unseeded":
            self.model = AddKBigram.counted(train, k=0.05 * ToyTrainer.n_made)
        elif self.fault == "learns nothing":
            self.model = AddKBigram.counted(train, k=1e9)
        elif self.fault == "counts held-out text":
            extended = corpus_from_texts({"train": "".join((*train.segments, *valid.segments)), "test": "a"})
            self.model = AddKBigram.counted(extended.train)
        elif self.fault == "knows held-out symbols":
            self.model = AddKBigram.counted(train.encoded_with(_widened(train.vocab, valid)))
        else:
            self.model = AddKBigram.counted(train)
        if self.fault == "learns from scoring":
            self.model = broken.Learns(self.model.vocab, self.model.p_HxV)
        yield Progress(tokens=train.n_tokens)


def _widened(vocab: Vocab, valid: Split) -> Vocab:
    """The vocabulary and, at its end, the symbols that only held-out text has."""
    surplus = tuple(sorted(set("".join(valid.segments)) - set(vocab.tokens)))
    counts_V = np.concatenate([vocab.counts_V, np.zeros(len(surplus), np.int64)])
    return dataclasses.replace(vocab, tokens=vocab.tokens + surplus, counts_V=counts_V)


TOY_ENTRY = ModelEntry(
    name="toy",
    description="a bigram for tests",
    config="tests.mutants:ToyConfig",
    trainer="tests.mutants:ToyTrainer",
    family="counting",
)
TOY_KINDS = {"toy": "tests.bigram:AddKBigram", "blank": "tests.broken:Blank"}


# --- the table


@dataclass(frozen=True)
class Mutant:
    """A fault and the check that must catch it.

    Args:
        check: the check's name.
        cls: the class of the model.
        also: other checks that the same fault cannot help failing.
        spec: how the model is trained, for faults of training.
        patches: (object, attribute, value): for faults outside the model.
        attributes: what the model declares besides.
    """

    check: str
    cls: type[AddKBigram] = AddKBigram
    also: frozenset[str] = frozenset()
    spec: str | None = None
    patches: tuple[tuple[object, str, Callable[..., Any]], ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        fault = self.spec or "+".join([self.cls.__name__, *(p[2].__name__ for p in self.patches), *self.attributes])
        return f"{self.check}-{fault}"

    def make(self) -> AddKBigram:
        model = self.cls.counted(toy_split())
        for name, value in self.attributes.items():
            setattr(model, name, value)
        return model


def _also(text: str) -> frozenset[str]:
    return frozenset(text.split())


MUTANTS: tuple[Mutant, ...] = (
    Mutant("api.attributes", broken.NoSize, also=_also("state.context_size_is_true")),
    Mutant("api.attributes", attributes={"tolerance": 0.5}),
    Mutant("api.attributes", attributes={"expected_failures": {"api.shape": "a slip of the pen"}}),
    Mutant("api.attributes", also=_also("api.shapes"), attributes={"expected_failures": {"api.shapes": " "}}),
    Mutant("api.attributes", attributes={"expected_failures": ["api.shapes"]}),
    Mutant(
        "api.shapes",
        broken.Flat,
        also=_also(
            "probability.never_above_zero probability.never_nan probability.sums_to_one "
            "probability.two_ways_agree probability.start_has_no_mass batch.rows_alone "
            "sampling.same_seed_same_text sampling.global_generators_untouched "
            "sampling.frequencies sampling.cold_is_argmax state.long_text"
        ),
    ),
    Mutant("api.empty_text", broken.AddsStart, also=_also("state.chunks")),
    Mutant("api.kinds_of_input", broken.IgnoresStrides),
    Mutant(
        "api.inputs_unmodified",
        broken.Scribbles,
        also=_also(
            "probability.two_ways_agree causality.right_padding state.chunks "
            "state.old_states_stay_valid state.repeated_call state.context_size_is_true "
            "state.long_text batch.rows_alone"
        ),
    ),
    Mutant("api.bad_ids", broken.Wraps),
    Mutant("api.bad_ids", broken.CountsFromEnd),
    Mutant("api.bad_ids", broken.Mute),
    Mutant("api.bad_ids", broken.LooksUpFirst),
    Mutant("api.bad_dtypes", broken.Rounds),
    Mutant("api.bad_ranks", broken.Flattens),
    Mutant("api.batch_mismatch", broken.Broadcasts),
    Mutant("probability.never_above_zero", broken.Densities),
    Mutant(
        "probability.never_nan",
        broken.NanAfterUnknown,
        also=_also(
            "api.kinds_of_input probability.sums_to_one probability.two_ways_agree "
            "probability.strings_sum_to_one probability.start_has_no_mass "
            "causality.future_is_invisible causality.right_padding state.chunks "
            "state.old_states_stay_valid state.repeated_call batch.rows_alone batch.row_order "
            "batch.selected_rows accounting.tally_is_of_the_text state.long_text"
        ),
    ),
    Mutant("probability.sums_to_one", broken.Leaks, also=_also("probability.strings_sum_to_one")),
    Mutant(
        "probability.sums_to_one", also=_also("probability.strings_sum_to_one"), attributes={"is_normalized": False}
    ),
    Mutant("probability.sums_to_one", broken.LeaksInNull),
    Mutant(
        "probability.sums_to_one",
        broken.LeaksWhenLong,
        also=_also("state.chunks state.long_text accounting.tally_is_of_the_text"),
    ),
    Mutant("probability.two_ways_agree", broken.Optimist, also=_also("probability.strings_sum_to_one")),
    Mutant("probability.all_logprobs_agree", broken.StaleDistributions),
    Mutant("probability.strings_sum_to_one", broken.Greedy, also=_also("accounting.tally_is_of_the_text")),
    Mutant("probability.start_has_no_mass", broken.PredictsStart),
    Mutant("causality.future_is_invisible", broken.Clairvoyant),
    Mutant("causality.right_padding", broken.SeesPadding),
    Mutant("state.chunks", broken.ColdChunks, also=_also("state.long_text accounting.tally_is_of_the_text")),
    Mutant("state.classes_of_contexts", broken.LosesItsClass),
    Mutant("state.classes_of_contexts", broken.UncountedClass),
    Mutant("state.long_text", broken.WearsOut),
    Mutant("state.long_text", broken.FadesAway),
    Mutant("state.old_states_stay_valid", broken.OverwritesState),
    Mutant(
        "state.repeated_call", broken.Learns, also=_also("causality.future_is_invisible state.old_states_stay_valid")
    ),
    Mutant("state.context_size_is_true", broken.LooksFurther),
    Mutant("batch.rows_alone", broken.MixesRows, also=_also("accounting.tally_is_of_the_text")),
    Mutant("batch.row_order", broken.LastRowShort, also=_also("batch.rows_alone")),
    Mutant("batch.selected_rows", broken.SelectsWrongly),
    Mutant(
        "sampling.same_seed_same_text",
        broken.Moody,
        also=_also(
            "api.empty_text probability.two_ways_agree state.chunks state.old_states_stay_valid "
            "state.repeated_call state.context_size_is_true batch.rows_alone batch.selected_rows "
            "sampling.cold_is_argmax"
        ),
    ),
    Mutant("sampling.global_generators_untouched", broken.DrawsGlobally),
    Mutant("sampling.frequencies", broken.Tires),
    Mutant("sampling.cold_is_argmax", broken.Drifts, also=_also("state.long_text")),
    Mutant("persistence.equal_in_fresh_process", broken.SavesHalf),
    Mutant("persistence.truncated_file", patches=((storage, "from_bytes", accept_cut_files),)),
    Mutant("persistence.altered_file", broken.Blank),
    Mutant("persistence.foreign_file", patches=((storage, "from_bytes", accept_any_file),)),
    Mutant("persistence.newer_file", patches=((storage, "from_bytes", accept_later_formats),)),
    Mutant(
        "training.same_seed_same_model",
        also=_also("training.scoring_changes_nothing"),
        spec="toy:fault=unseeded",
    ),
    Mutant("training.learns_a_cycle", spec="toy:fault=learns nothing"),
    Mutant("training.scoring_changes_nothing", spec="toy:fault=learns from scoring"),
    Mutant("training.vocabulary_from_train_only", spec="toy:fault=counts held-out text"),
    Mutant(
        "training.vocabulary_from_train_only",
        spec="toy:fault=knows held-out symbols",
    ),
    Mutant("accounting.uniform_perplexity", broken.MisreadsVocabulary),
    Mutant("accounting.tally_is_of_the_text", broken.ScoresByBatch),
)
