"""The page that an exported model brings along.

Runs on the TensorFlow backend of Keras only.
"""

from memlm_keras.serving import example_requests

FILE = "model_card.md"
REQUESTS = "requests"
# Larger ones are no examples that anyone would read.
_LARGEST_EXAMPLE = 2**20
_PAGE = """\
# {title}

{facts}

## Use, and its limits

For text like that which it was trained on: of other text its numbers mean
little. Nobody has checked what it says, which repeats that text, errors and
biases included. The licence of the text is not known here: whoever trained the
model can tell what it allows.

## Signatures

The first size is that of rows, and `?` is any size. What is not said here is
in the documentation of `memlm_keras.serving.export`.

| signature | inputs | outputs |
|---|---|---|
{signatures}

{state}## Requests

A request of each signature, to be sent to a server by REST{but}:

    curl -d @{folder}/{first}.json http://localhost:8501/v1/models/NAME:predict

{requests}

{warm_up}
"""


def write(functions, requests, facts, warmed_up, folder):
    """Writes the page, and the requests that it names.

    Args:
        functions: dict of concrete functions by the name of the signature.
        requests: dict, by the same names, of dicts of tensors.
        facts: dict of strings and numbers, what is known of the model, with
            its `"name"`.
        warmed_up: whether there are warm-up requests.
        folder: `pathlib.Path` of `assets.extra`.
    """
    (folder / REQUESTS).mkdir()
    written = []
    for name, request in requests.items():
        body = example_requests.as_json(name, request)
        if len(body) <= _LARGEST_EXAMPLE:
            (folder / REQUESTS / f"{name}.json").write_text(body + "\n")
            written.append(name)
    facts = dict(facts)
    page = _PAGE.format(
        title=facts.pop("name"),
        facts="\n".join(f"* {key}: {_said(v)}" for key, v in facts.items()),
        signatures="\n".join(
            f"| `{name}` | {_tensors(example_requests.inputs(function))} "
            f"| {_tensors(function.structured_outputs)} |"
            for name, function in functions.items()
        ),
        state=_state(functions),
        but="" if len(written) == len(requests) else ", but the largest",
        folder=REQUESTS,
        first="score" if "score" in written else written[0],
        requests="\n".join(f"* `{REQUESTS}/{name}.json`" for name in written),
        warm_up=(
            "A server is warmed up by these requests before it answers."
            if warmed_up
            else "There are no warm-up requests, as `tensorflow-serving-api` "
            "was not installed: the first answer of each signature takes "
            "seconds."
        ),
    )
    (folder / FILE).write_text(page, encoding="utf-8")


def _state(functions):
    """Section on the state that requests carry."""
    if "initial_state" not in functions:
        return ""
    specs = functions["initial_state"].structured_outputs.values()
    size = sum(
        spec.dtype.size * spec.shape[1:].num_elements() for spec in specs
    )
    return (
        "## State\n\n"
        f"{size:,} bytes a row go in and come out with each `step`. It means "
        "nothing to another model or another version, which refuse it.\n\n"
    )


def _tensors(specs):
    return ", ".join(
        f"`{key}` {spec.dtype.name} ({_sizes(spec.shape)})"
        for key, spec in specs.items()
    )


def _sizes(shape):
    sizes = ", ".join("?" if size is None else str(size) for size in shape)
    return sizes + "," * (len(shape) == 1)


def _said(value):
    return f"{value:,}" if isinstance(value, int) else f"{value}"
