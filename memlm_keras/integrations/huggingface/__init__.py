"""Language models in `transformers`: see `modeling`."""

from memlm_keras.formats import Format

# The module that `trust_remote_code=True` loads from an exported folder.
MODULE = "modeling_memlm.py"
FORMATS = {
    "hf": Format(
        "memlm_keras.integrations.huggingface.modeling.write",
        server="transformers",
        place="huggingface/{name}",
        start="lm_eval run --model hf --tasks blimp --model_args "
        "pretrained={path},trust_remote_code=True",
        suffix="",
        packages=("torch", "transformers"),
        mark=MODULE,
        backend="torch",
    ),
}
