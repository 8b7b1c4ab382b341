"""State of a training run beside its weights, and the file that holds all."""

import json
import zlib

import keras
import numpy as np

from memlm_keras import files

FORMAT = 2

# What Keras' callbacks change in themselves while they watch a training run.
_CALLBACK_STATE = {
    "EarlyStopping": ("wait", "best", "best_epoch", "stopped_epoch"),
    "ReduceLROnPlateau": ("wait", "best", "cooldown_counter"),
    "ModelCheckpoint": ("best",),
    "History": ("epoch", "history"),
}

# === Randomness ===


def get_counters(model):
    """Returns the counters of a compiled model as a list of arrays.

    These are the seeds of its layers, the optimizer's iterations and, on torch,
    the states of the global generators: without a seed of its own, a Keras
    dropout layer draws from those and leaves its own seed variable alone.
    """
    counters = [
        keras.ops.convert_to_numpy(variable).copy()
        for variable in _variables(model)
    ]
    return counters + [state.numpy() for state in _torch_states()]


def set_counters(model, counters):
    """Puts counters back as `get_counters` returned them."""
    variables = _variables(model)
    for variable, value in zip(variables, counters):
        variable.assign(value)
    states = counters[len(variables) :]
    if states:
        _set_torch_states(states)


def _variables(model):
    seeds = [v for v in model.variables if v.name == "seed_generator_state"]
    return [*seeds, model.optimizer.iterations]


def _torch_states():
    if keras.backend.backend() != "torch":
        return []
    import torch

    states = [torch.get_rng_state()]
    if torch.cuda.is_available():
        states += torch.cuda.get_rng_state_all()
    return states


def _set_torch_states(states):
    import torch

    cpu, *devices = (torch.from_numpy(np.array(state)) for state in states)
    torch.set_rng_state(cpu)
    for index, state in enumerate(devices):
        torch.cuda.set_rng_state(state, index)


# === Callbacks ===


def get_callback_state(callback):
    """Returns what a callback remembers, as JSON values."""
    if hasattr(callback, "get_state"):
        return callback.get_state()
    names = _CALLBACK_STATE.get(type(callback).__name__, ())
    state = {name: getattr(callback, name, None) for name in names}
    return json.loads(json.dumps(state, default=float))


def set_callback_state(callback, state, best_weights):
    """Puts back what `get_callback_state` and `get_best_weights` returned."""
    if hasattr(callback, "set_state"):
        callback.set_state(state)
        return
    for name, value in state.items():
        setattr(callback, name, value)
    if best_weights:
        callback.best_weights = best_weights


def get_best_weights(callback):
    """Returns the weights that a callback would put back, a list of arrays."""
    return getattr(callback, "best_weights", None) or []


# === Optimizer ===


def get_rate(optimizer):
    """Returns the learning rate as a float, or its schedule as plain values."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    return plain(optimizer.get_config()["learning_rate"])


def get_optimizer_config(optimizer):
    """Returns all that an optimizer is, but for its learning rate."""
    config = {"class_name": type(optimizer).__name__, **optimizer.get_config()}
    if hasattr(optimizer, "inner_optimizer"):
        config["inner_optimizer"] = get_optimizer_config(
            optimizer.inner_optimizer
        )
    for key in ("learning_rate", "name"):
        config.pop(key, None)
    return plain(config)


def plain(value):
    """Returns a value as it is when it was written to JSON and read again."""
    return json.loads(json.dumps(value, default=repr))


# === File ===


def write(path, meta, arrays):
    """Writes arrays, and as `meta` plain values, whole or not at all."""
    meta = json.loads(json.dumps({"format": FORMAT, **meta}))
    meta["checksum"] = _checksum(meta, arrays)
    with files.atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, meta=np.array(json.dumps(meta)), **arrays)


def read(path):
    """Returns the arrays of a checkpoint, and what else it holds as `meta`."""
    remedy = "Remove it to begin anew, or put an intact copy in its place."
    with files.reading(path, "checkpoint", remedy):
        with np.load(path, allow_pickle=False) as archive:
            saved = {key: archive[key] for key in archive.files}
        meta = json.loads(str(saved.pop("meta")))
        if meta["format"] == FORMAT:
            # Archives have checksums of arrays, but not of their names.
            if meta.pop("checksum") != _checksum(meta, saved):
                raise ValueError("its checksum is wrong")
    if meta["format"] != FORMAT:
        raise ValueError(
            f"The checkpoint {path} is of format {meta['format']}; "
            f"this version reads format {FORMAT}. Resume it with the version "
            "of memlm_keras that wrote it."
        )
    return {**saved, "meta": meta}


def _checksum(meta, arrays):
    sum_ = zlib.crc32(json.dumps(meta, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        array = np.ascontiguousarray(array)
        sum_ = zlib.crc32(f"{name} {array.dtype} {array.shape}".encode(), sum_)
        sum_ = zlib.crc32(array, sum_)
    return sum_
