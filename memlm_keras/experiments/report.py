"""Results of runs: as plain values, as one line, and as whole tables."""

import csv
import dataclasses
import statistics

from memlm_keras import files

_ENVIRONMENT = ("backend", "keras", "python", "hardware", "date")
# Of each run by itself, and in columns or nowhere.
_OWN = (
    "preset",
    "units",
    "seed",
    "parameters",
    "epochs",
    "best_epoch",
    "seconds_per_epoch",
    "tokens_per_second",
    "pairs_per_second",
    "peak_memory_mib",
    "finite",
    "ended",
    "command",
)


def better(monitor):
    """`max` where more of a metric is better, else `min`."""
    return max if monitor.endswith("accuracy") else min


def summary_of_log(log, monitor):
    """Summary of the log of a whole run.

    Args:
        log: list of dicts of floats, one an epoch.
        monitor: string, the metric that the best epoch is chosen by.

    Returns:
        Dict of plain values; of equal epochs the first is the best.
    """
    speed = next(name for name in log[0] if name.endswith("_per_second"))
    best = better(monitor)(range(len(log)), key=lambda e: log[e][monitor])
    return {
        "epochs": len(log),
        "best_epoch": 1 + best,
        "seconds_per_epoch": statistics.median(r["seconds"] for r in log),
        speed: statistics.median(row[speed] for row in log),
    }


def plain_perplexity(result):
    """A `Perplexity` as plain values, those of other protocols by their names.

    Args:
        result: `memlm_keras.evaluation.Perplexity`.
    """
    return {
        "perplexity": result.perplexity,
        "loss": result.loss,
        "predicted_tokens": result.predicted_tokens,
        "total_tokens": result.total_tokens,
        "protocol": result.protocol,
        **{
            name: plain_perplexity(other)
            for name, other in result.others.items()
        },
    }


def outcome(results, measures):
    """One line that says what came of a run.

    Args:
        results: dict, what `results.json` holds.
        measures: list of `memlm_keras.presets.Measure`s.
    """
    line = ", ".join(
        f"{measure.name} {measure.of(results):.{measure.digits}f}"
        for measure in measures
        if measure.is_in(results)
    )
    line += f"; best of {results['epochs']} epochs: {results['best_epoch']}"
    for unit in ("tokens", "pairs"):
        if f"{unit}_per_second" in results:
            line += f"; {results[f'{unit}_per_second']:,.0f} {unit} a second"
    if not results.get("finite", True):
        line += "; stopped, as the loss was not finite"
    return line


@dataclasses.dataclass(frozen=True)
class Summary:
    """Numbers of several runs; no standard deviation of a single one."""

    mean: float
    standard_deviation: float | None
    minimum: float
    maximum: float


def summarize(values):
    """Returns the `Summary` of those that are numbers, `None` of none."""
    values = [value for value in values if value is not None]
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Summary(statistics.mean(values), deviation, min(values), max(values))


def write_table(table, progress, command):
    """Writes `table.csv` and `table.md` of a table, each whole.

    Args:
        table: `memlm_keras.experiments.table.TableRuns`.
        progress: `memlm_keras.experiments.table.Progress`.
        command: string, what was typed.
    """
    records = [_record(table, row, progress) for row in table.rows]
    write_csv(table.folder / "table.csv", records)
    lines = [
        f"# {table.title}",
        "",
        *_facts(table, progress),
        f"* command: `{command}`",
        "",
        *_markdown(table, records),
        *_published_elsewhere(table),
        *_failures(progress),
        *(f"\n![{name}]({name})" for name in table.pictures(progress)),
    ]
    with files.atomic_path(table.folder / "table.md") as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_csv(path, records):
    """Writes a list of dicts of the same keys as CSV."""
    with files.atomic_path(path) as temporary:
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(records[0]) if records else [])
            writer.writeheader()
            writer.writerows(records)


def _record(table, row, progress):
    """One row of the table, as plain values by column."""
    results = progress.results(row)

    def mean(key):
        found = [r[key] for r in results if key in r]
        return statistics.mean(found) if found else ""

    def list_seeds(runs):
        return " ".join(str(run.seed) for run in progress.of(row, runs))

    columns = dict.fromkeys(name for r in table.rows for name in r.details)
    record = {name: row.details.get(name, "") for name in columns}
    record["units"] = results[0]["units"] if results else ""
    record["parameters"] = results[0]["parameters"] if results else ""
    record["seeds"] = list_seeds(progress.finished)
    record["failed"] = list_seeds(progress.failed)
    record["to_come"] = list_seeds(progress.to_come)
    record["best_epoch"] = " ".join(
        f"{r['best_epoch']}/{r['epochs']}" for r in results
    )
    for measure in table.measures:
        summary = summarize(measure.of(r) for r in results)
        for field in dataclasses.fields(Summary):
            value = getattr(summary, field.name, None)
            column = f"{measure.name}_{field.name}".removesuffix("_mean")
            record[column] = "" if value is None else value
    for key in (table.speed, "seconds_per_epoch", "peak_memory_mib"):
        record[key] = mean(key)
    if table.has_published:
        published = row.published_on(table.dataset)
        for measure in table.measures:
            value = published.get(measure.name)
            record[f"paper_{measure.name}"] = "" if value is None else value
    return record


def _markdown(table, records):
    columns = {
        **{name: name for row in table.rows for name in row.details},
        "units": "units",
        "parameters": "parameters",
        "seeds": "seeds",
        "best_epoch": "best epoch",
        **{measure.name: measure.name for measure in table.measures},
        table.speed: table.speed.replace("_per_second", " / s"),
        "seconds_per_epoch": "s / epoch",
        "peak_memory_mib": "peak memory, MiB",
    }
    if table.has_published:
        columns.update(
            {f"paper_{m.name}": f"paper {m.name}" for m in table.measures}
        )
    rows = []
    several = False
    for record in records:
        cells = dict(record)
        for key in (
            table.speed,
            "seconds_per_epoch",
            "parameters",
            "peak_memory_mib",
        ):
            cells[key] = "" if record[key] == "" else f"{record[key]:,.0f}"
        cells["seeds"] = _seeds_cell(record)
        for measure in table.measures:
            cells[measure.name] = _measure_cell(record, measure)
            several |= record[f"{measure.name}_standard_deviation"] != ""
        rows.append([cells[name] for name in columns])
    yield from markdown_table(columns.values(), rows)
    if several:
        yield (
            "\nOver the seeds: mean ± sample standard deviation (least to "
            "greatest)."
        )


def markdown_table(heads, rows):
    heads = list(heads)
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def _published_elsewhere(table):
    """The paper's numbers of other texts, in a table of their own."""
    corpora = dict.fromkeys(
        (published.corpus, name)
        for row in table.rows
        for published in row.published
        if table.dataset is None or published.dataset != table.dataset
        for name, value in published.numbers.items()
        if value is not None
    )
    if not corpora:
        return
    yield "\nPublished, of other texts, with which ours cannot be compared:\n"
    heads = ["row", *(f"{name}, {corpus}" for corpus, name in corpora)]
    rows = []
    for row in table.rows:
        found = {
            (published.corpus, name): value
            for published in row.published
            for name, value in published.numbers.items()
        }
        rows.append([row.label, *(found.get(key) or "" for key in corpora)])
    yield from markdown_table(heads, rows)


def _seeds_cell(record):
    parts = [record["seeds"].replace(" ", ", ")]
    for column, text in (("failed", "failed"), ("to_come", "to come")):
        if record[column]:
            parts.append(f"{text}: {record[column].replace(' ', ', ')}")
    return "; ".join(part for part in parts if part)


def _measure_cell(record, measure):
    mean, deviation, minimum, maximum = (
        record[f"{measure.name}{ending}"]
        for ending in ("", "_standard_deviation", "_minimum", "_maximum")
    )
    if mean == "":
        return ""
    digits = measure.digits
    if deviation == "":
        return f"{mean:.{digits}f}"
    return (
        f"{mean:.{digits}f} ± {deviation:.{digits}f} "
        f"({minimum:.{digits}f} to {maximum:.{digits}f})"
    )


def _facts(table, progress):
    """Lines that say how all of the table was made: what all runs share."""
    results = list(progress.finished.values())
    keys = dict.fromkeys(key for r in results for key in r)
    for key in keys:
        values = [_fact(r[key]) for r in results if key in r]
        varies = len(set(values)) > 1
        if not values or key in _OWN or (varies and key not in _ENVIRONMENT):
            continue
        texts = sorted({value for value in values if value is not None})
        if texts:
            yield f"* {key.replace('_', ' ')}: {'; '.join(texts)}"
    for protocol in dict.fromkeys(
        measure.protocol(found)
        for measure in table.measures
        if measure.path
        for found in results
        if measure.is_in(found)
    ):
        if protocol is not None:
            yield f"* {protocol}"


def _fact(value):
    """A setting as text; `None` for what is measured."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        if not all(isinstance(v, (bool, int, float)) for v in value.values()):
            return None
        return ", ".join(f"{name} {rate}" for name, rate in value.items())
    if isinstance(value, list):
        return None
    return f"{value:,}" if isinstance(value, int) else str(value)


def _failures(progress):
    for run in progress.runs:
        if run in progress.failed:
            yield (
                f"\nFailed: {run.row.label}, seed {run.seed}; see "
                f"{run.folder / 'log.txt'}."
            )
