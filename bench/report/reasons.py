"""Why a figure of a row is missing, by the column of the summary that it would stand in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from bench.records import Figure, Measured, TrialRecord
from bench.report.excess import entropy_of
from bench.report.rows import Row

# of a figure that nothing was said of
_NOT_MEASURED = "not measured"
_MAY_BE_ABSENT = (
    "n_params",
    "train_s",
    "train_tokens_per_s",
    "eval_tokens_per_s",
    "next_token_us",
    "next_token_us_p99",
)


def _absent(name: str) -> Callable[[Measured], Figure | None]:
    """The reason in place of a figure that does not exist; None where it does."""
    return lambda m: Figure(reason=m.absent[name]) if name in m.absent else None


REASONS: Mapping[str, Callable[[Measured], Figure | None]] = {
    "test_perplexity": lambda m: m.test.perplexity,
    "test_perplexity_no_oov": lambda m: m.test.perplexity_no_oov,
    "valid_perplexity": lambda m: m.valid.perplexity,
    "bits_per_char": lambda m: m.test.bits_per_char,
    "bits_per_byte": lambda m: m.test.bits_per_byte,
    "top1_accuracy": lambda m: m.top1_accuracy,
    "model_bytes": lambda m: m.model_bytes,
    # what has no blocks has no interval
    "interval": _absent("block_nats"),
    **{name: _absent(name) for name in _MAY_BE_ABSENT},
}
_OF_RECORDS: Mapping[str, Callable[[TrialRecord], Figure | None]] = {
    "cpu_joules": lambda record: record.energy.cpu_joules if record.energy else None,
    "device_joules": lambda record: record.energy.device_joules if record.energy else None,
}


def reason_of(row: Row, column: str) -> str:
    """Why a row has no finite number in a column: as its records say, else as its own status or kind does."""
    said = [figure.reason for figure in _figures(row, column) if figure.value is None and figure.reason]
    if said:
        return said[0]
    if row.status != "ok":
        return row.reason or row.status_in_words
    return _by_kind(row, column)


def _by_kind(row: Row, column: str) -> str:
    if column.startswith("peak_device_") and row.device == "cpu":
        return "on the CPU"
    if column == "excess_nats_per_token":
        is_known = entropy_of([row]) is not None
        return reason_of(row, "test_perplexity") if is_known else "the entropy of the text's source is not known"
    return _NOT_MEASURED


def _figures(row: Row, column: str) -> Iterator[Figure]:
    of_measured, of_record = REASONS.get(column), _OF_RECORDS.get(column)
    yield from filter(None, map(of_measured, row.measured) if of_measured else ())
    yield from filter(None, map(of_record, row.records) if of_record else ())
