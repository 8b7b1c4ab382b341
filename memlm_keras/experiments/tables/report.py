"""Summarises the results of runs in lines and tables."""

import dataclasses
import statistics

from memlm_keras import files

_ENVIRONMENT = ("backend", "keras", "python", "hardware", "date")
# Values that belong to a single run, and are not listed for a whole table.
_PER_RUN = (
    "preset units seed parameters epochs best_epoch seconds_per_epoch "
    "tokens_per_second pairs_per_second peak_memory_mib finite ended command"
).split()


def better(monitor):
    """Returns the function `max` for an accuracy, else the function `min`."""
    return max if monitor.endswith("accuracy") else min


def outcome(results, columns):
    """Returns a line with some columns of a run's results."""
    line = ", ".join(
        f"{measure.name} {measure.of(results):.{measure.digits}f}"
        for measure in columns
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
    """Statistics over runs; `None` for the deviation of a single run."""

    mean: float
    standard_deviation: float | None
    minimum: float
    maximum: float


def summarize(values):
    """Returns the `Summary` of the values that are not `None`, if any."""
    values = [value for value in values if value is not None]
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Summary(statistics.mean(values), deviation, min(values), max(values))


# === Writers ===


def markdown_table(columns, rows):
    """Returns the lines of a Markdown table; cells can have any type."""
    lines = [f"| {' | '.join(map(str, row))} |" for row in (columns, *rows)]
    lines.insert(1, "|" + "---|" * len(columns))
    return lines


# === Tables of the papers ===


def write_table(table, runs, command, pictures=()):
    """Writes `table.csv` and `table.md` for a `TableRuns` and its runs."""
    rows = [_record_and_cells(table, row, runs) for row in table.rows]
    records = [record.values() for record, _ in rows]
    files.write_csv(table.folder / "table.csv", rows[0][0], records)
    cells = [list(texts.values()) for _, texts in rows]
    lines = [
        f"# {table.title}",
        "",
        *_facts(table, [run.results for run in runs if run.results]),
        f"* command: `{command}`",
        "",
        *markdown_table(list(rows[0][1]), cells),
    ]
    if any(_DEVIATION in str(text) for texts in cells for text in texts):
        lines.append(
            "\nOver the seeds: mean ± sample standard deviation (minimum to "
            "maximum)."
        )
    lines += _published_elsewhere(table)
    lines += [
        f"\nFailed: {run.row.label}, seed {run.seed}; see "
        f"{run.folder / 'log.txt'}."
        for run in runs
        if run.failed
    ]
    lines += [f"\n![{name}]({name})" for name in pictures]
    files.write_text(table.folder / "table.md", "\n".join([*lines, ""]))


_DEVIATION = " ± "


def _record_and_cells(table, row, runs):
    """Returns the values of a row for `table.csv`, and its cells for
    `table.md`."""
    runs = [run for run in runs if run.row is row]
    results = [run.results for run in runs if run.results]
    details = dict.fromkeys(name for r in table.rows for name in r.details)
    record = {name: row.details.get(name, "") for name in details}
    for name in ("units", "parameters"):
        record[name] = results[0][name] if results else ""
    cells = {**record, "parameters": _rounded(record["parameters"])}
    seeds = {"seeds": [], "failed": [], "to_come": []}
    for run in runs:
        state = "failed" if run.failed else "to_come"
        seeds["seeds" if run.results else state].append(str(run.seed))
    record |= {name: " ".join(each) for name, each in seeds.items()}
    cells["seeds"] = "; ".join(
        head + ", ".join(each)
        for head, each in zip(("", "failed: ", "to come: "), seeds.values())
        if each
    )
    record["best_epoch"] = cells["best epoch"] = " ".join(
        f"{r['best_epoch']}/{r['epochs']}" for r in results
    )
    for measure in table.columns:
        summary = summarize(measure.of(r) for r in results)
        for field in dataclasses.fields(Summary):
            value = getattr(summary, field.name, None)
            column = f"{measure.name}_{field.name}".removesuffix("_mean")
            record[column] = "" if value is None else value
        cells[measure.name] = _measured(summary, measure.digits)
    for name, head in (
        (table.speed, table.speed.replace("_per_second", " / s")),
        ("seconds_per_epoch", "s / epoch"),
        ("peak_memory_mib", "peak memory, MiB"),
    ):
        values = [r[name] for r in results if name in r]
        record[name] = statistics.mean(values) if values else ""
        cells[head] = _rounded(record[name])
    if table.has_published:
        published = row.published_on(table.dataset)
        for measure in table.columns:
            value = published.get(measure.name)
            value = "" if value is None else value
            record[f"paper_{measure.name}"] = value
            cells[f"paper {measure.name}"] = value
    return record, cells


def _rounded(number):
    return "" if number == "" else f"{number:,.0f}"


def _measured(summary, digits):
    if summary is None:
        return ""
    mean, *deviation, minimum, maximum = (
        f"{value:.{digits}f}"
        for value in dataclasses.astuple(summary)
        if value is not None
    )
    if not deviation:
        return mean
    return f"{mean}{_DEVIATION}{deviation[0]} ({minimum} to {maximum})"


def _published_elsewhere(table):
    """Yields lines of a table of the numbers that the paper published for
    datasets other than `table.dataset`."""
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
    yield "\nPublished for other texts, not comparable with ours:\n"
    rows = []
    for row in table.rows:
        numbers = {each.corpus: each.numbers for each in row.published}
        values = (numbers.get(text, {}).get(name) for text, name in corpora)
        rows.append([row.label, *(value or "" for value in values)])
    yield from markdown_table(
        ["row", *(f"{name}, {corpus}" for corpus, name in corpora)], rows
    )


def _facts(table, results):
    """Yields lines with the runs' common settings and their environment."""
    for key in dict.fromkeys(key for r in results for key in r):
        texts = {_fact(r[key]) for r in results if key in r}
        varies = len(texts) > 1
        if key in _PER_RUN or (varies and key not in _ENVIRONMENT):
            continue
        if texts := sorted(texts - {None}):
            yield f"* {key.replace('_', ' ')}: {'; '.join(texts)}"
    protocols = dict.fromkeys(
        measure.protocol(r)
        for measure in table.columns
        if measure.path
        for r in results
        if measure.is_in(r)
    )
    yield from (f"* {protocol}" for protocol in protocols if protocol)


def _fact(value):
    """Returns a value of the results as text, or `None` if it is not a setting
    of a run: a list, or a dict with values that are not numbers."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        if not all(isinstance(v, (bool, int, float)) for v in value.values()):
            return None
        return ", ".join(f"{name} {rate}" for name, rate in value.items())
    if isinstance(value, list):
        return None
    return f"{value:,}" if isinstance(value, int) else str(value)
