"""Tables as Markdown and CSV, beside the paper's numbers, and as pictures."""

import csv
import dataclasses
import shlex
import statistics
import sys

import numpy as np
import run_folders
from absl import flags

FLAGS = flags.FLAGS

MEAN_ATTENTION = "mean_attention.png"
_ENVIRONMENT = ("backend", "keras", "python", "hardware", "date")


@dataclasses.dataclass(frozen=True)
class Summary:
    """What several runs measured; no standard deviation of a single one."""

    mean: float
    standard_deviation: float | None
    minimum: float
    maximum: float


def summarize(values):
    """Returns the `Summary` of a list of numbers, `None` of an empty one."""
    if not values:
        return None
    return Summary(
        mean=statistics.mean(values),
        standard_deviation=(
            statistics.stdev(values) if len(values) > 1 else None
        ),
        minimum=min(values),
        maximum=max(values),
    )


def write(table, progress):
    """Writes `table.csv`, `table.md` and the pictures, each whole."""
    from memlm_keras import files

    records = [_record(table, row, progress) for row in table.rows]
    with files.atomic_path(table.folder / "table.csv") as temporary:
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(records[0]))
            writer.writeheader()
            writer.writerows(records)
    pictures = table.draw(table, progress) if table.draw else []
    lines = [
        f"# {table.title}",
        "",
        *_facts(table, progress),
        "",
        *_markdown(table, records),
        *_failures(progress),
        *(f"\n![{name}]({name})" for name in pictures),
    ]
    with files.atomic_path(table.folder / "table.md") as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def draw_mean_attention(table, progress):
    """Draws the mean attention of all rows that attend, each over its seeds.

    Args:
        table: `tables.Table`.
        progress: `tables.Progress`.

    Returns:
        List of the names of the pictures, empty if no row attends.
    """
    from memlm_keras import analysis

    means = {}
    for row in table.rows:
        found = [
            run_folders.read_mean_attention(run.folder)
            for run in progress.of(row, progress.finished)
        ]
        found = [mean for mean in found if mean is not None]
        if found:
            means[row.label] = np.mean(found, axis=0)
    if not means:
        return []
    analysis.plot_mean_attention(
        means,
        table.folder / MEAN_ATTENTION,
        title="Mean attention over the test text",
    )
    return [MEAN_ATTENTION]


def draw_lines(panels, path, x_label, y_label):
    """Draws lines in panels side by side, as PNG.

    Args:
        panels: dict by title of dicts by label of dicts from x to `Summary`.
        path: path of the PNG file.
        x_label, y_label: strings.
    """
    from matplotlib.figure import Figure

    from memlm_keras import files

    figure = Figure(figsize=(5.5 * len(panels), 4), layout="constrained")
    labels = list(dict.fromkeys(label for p in panels.values() for label in p))
    for axes, (title, lines) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items()
    ):
        for label, line in lines.items():
            axes.errorbar(
                list(line),
                [summary.mean for summary in line.values()],
                _error_bars(line.values()),
                label=label,
                # The same model has the same colour in every panel.
                color=f"C{labels.index(label)}",
                marker="o",
                capsize=3,
            )
            axes.set_xticks(
                sorted({x for line in lines.values() for x in line})
            )
        axes.set_title(title)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        if lines:
            axes.legend()
    with files.atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)


def _error_bars(summaries):
    deviations = [summary.standard_deviation for summary in summaries]
    return None if None in deviations else deviations


def _record(table, row, progress):
    """One row of the table, as plain values by column."""
    results = progress.results(row)

    def mean(key):
        return statistics.mean(r[key] for r in results) if results else ""

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
        measured = [measure.of(r) for r in results]
        summary = summarize([value for value in measured if value is not None])
        for field in dataclasses.fields(Summary):
            value = getattr(summary, field.name, None)
            column = f"{measure.name}_{field.name}".removesuffix("_mean")
            record[column] = "" if value is None else value
    for key in (table.speed, "seconds_per_epoch", "peak_memory_mib"):
        record[key] = mean(key)
    for measure in table.measures:
        published = row.published.get(measure.name)
        record[f"paper_{measure.name}"] = "" if published is None else published
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
        **{f"paper_{m.name}": f"paper {m.name}" for m in table.measures},
    }
    yield f"| {' | '.join(columns.values())} |"
    yield "|" + "---|" * len(columns)
    several = False
    for record in records:
        cells = dict(record)
        for key in (table.speed, "seconds_per_epoch"):
            cells[key] = _rounded(record[key])
        cells["parameters"] = _rounded(record["parameters"])
        cells["peak_memory_mib"] = _rounded(record["peak_memory_mib"])
        cells["seeds"] = _seeds_cell(record)
        for measure in table.measures:
            cells[measure.name] = _measure_cell(record, measure)
            several |= record[f"{measure.name}_standard_deviation"] != ""
        yield f"| {' | '.join(str(cells[name]) for name in columns)} |"
    if several:
        yield (
            "\nOver the seeds: mean ± sample standard deviation (least to "
            "greatest)."
        )


def _rounded(value):
    return "" if value == "" else f"{value:,.0f}"


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
    """Lines that say how all of the table was made."""
    for key in (*table.settings, "most_epochs", *_ENVIRONMENT):
        texts = sorted(
            {_fact(r[key]) for r in progress.finished.values() if key in r}
        )
        if texts:
            yield f"* {key.replace('_', ' ')}: {'; '.join(texts)}"
    for protocol in dict.fromkeys(
        measure.protocol(results)
        for measure in table.measures
        for results in progress.finished.values()
    ):
        if protocol is not None:
            yield f"* {protocol}"
    yield f"* command: `{shlex.join(['python', *sys.argv])}`"


def _fact(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _failures(progress):
    for run in progress.runs:
        if run in progress.failed:
            yield (
                f"\nFailed: {run.row.label}, seed {run.seed}; see "
                f"{run.folder / 'log.txt'}."
            )
