"""`memlm export`."""

import shlex

import memlm_keras as memlm
from memlm_keras import formats
from memlm_keras import registry
from memlm_keras import trained
from memlm_keras.experiments import options
from memlm_keras.experiments import process
from memlm_keras.experiments.command_line import command
from memlm_keras.experiments.opened import open_run


@command(
    "Exports a model as a SavedModel for TensorFlow Serving, or in another "
    "format. FOLDER is saved_models/NAME or saved_models/NAME/VERSION; by "
    "default the next version, under the name of the run.",
    {"RUN": None, "FOLDER": "?"},
    options.Option(
        "format",
        str,
        "Format to write; by default tf_saved_model.",
        choices=tuple(formats.formats()),
    ),
    options.CACHE,
    options.Option("overwrite", bool, "Replace an existing export."),
    options.Option(
        "quantize",
        str,
        "For --format=litert and web: store weights in eight bits.",
        choices=("int8",),
    ),
    options.Option(
        "for",
        str,
        "Write a model repository for this server, which keeps the state.",
        choices=("triton",),
    ),
    options.Option(
        "contract",
        str,
        "For --format=onnx: the inputs and outputs of sherpa-onnx, for shallow "
        "fusion or rescoring.",
        choices=("sherpa", "sherpa_offline"),
    ),
    options.Option(
        "tokens",
        str,
        "For --contract: the recogniser's tokens.txt, which must agree with "
        "the model's vocabulary.",
    ),
)
def export(
    run: str,
    folder: str | None,
    format: str | None = None,
    cache: bool = False,
    overwrite: bool = False,
    quantize: str | None = None,
    for_: str | None = None,
    contract: str | None = None,
    tokens: str | None = None,
):
    if for_ is not None and format is not None:
        raise options.UsageError("--for sets the format. Leave out --format.")
    format = for_ or format or "tf_saved_model"
    opened = open_run(run)
    about = formats.formats()[format]
    path = folder or about.place.format(name=opened.name + "-cache" * cache)
    is_saved = format == "tf_saved_model"
    process.import_keras()
    with options.wrong_use():
        memlm.serving.check_path(path, overwrite, format)
    model = opened.model_that(cache=cache)
    with options.wrong_use():
        path = memlm.serving.export(
            model,
            path,
            top_k=min(10, model.vocabulary_size),
            overwrite=overwrite,
            format=format,
            quantize=quantize,
            contract=contract,
            tokens=tokens,
            card=facts_of(opened, cache) if is_saved else None,
        )
    print(f"Exported for {about.server}: {path}")
    if about.start:
        parent = path.resolve().parent
        start = about.start.format(
            path=shlex.quote(str(path)),
            folder=shlex.quote(str(parent)),
            name=shlex.quote(parent.name),
        )
        print(f"  {start}")


def facts_of(opened, cache=False):
    """Returns a dict of facts about a model, for its model card."""
    if opened.preset is not None:
        return trained.read_metadata(opened.preset)["card"]
    results = opened.folder and opened.folder.results()
    if not results:
        return {}
    paper = registry.papers().get(results["preset"].partition("/")[0])
    found = results["cache"] if cache else results
    facts = {
        "preset": results["preset"],
        "paper": paper and paper.source(),
        "data": results["dataset"],
        "seed": results.get("seed"),
        **{
            f"{split} {name}": f"{found[split][name]:.2f}"
            for split in ("validation", "test")
            for name in ("perplexity", "accuracy")
            if name in found.get(split, {})
        },
        # The protocol says which tokens the perplexity counts.
        "perplexity": results.get("test", {}).get("protocol"),
        "trained": f"{results['date']}, {results['backend']}",
    }
    return {key: value for key, value in facts.items() if value is not None}
