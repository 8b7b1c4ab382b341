"""Names of what a model remembers, in the flat dict of its state."""

from keras import tree


def pack_layer(state, index, layer_state):
    """Puts the states of a recurrent layer into the state of a model."""
    for position, value in enumerate(tree.flatten(layer_state)):
        state[f"recurrent_{index}_state_{position}"] = value


def unpack_layer(state, index, layer):
    """The states of a recurrent layer, as it takes them."""
    if state is None:
        return None
    structure = layer.get_initial_state(1)
    return tree.pack_sequence_as(
        structure,
        [
            state[f"recurrent_{index}_state_{position}"]
            for position in range(len(tree.flatten(structure)))
        ],
    )


def pack_named(prefix, values):
    """The state of a memory or a mixture, named as a model's."""
    return {f"{prefix}_{name}": value for name, value in values.items()}


def unpack_named(state, prefix):
    """The way back of `pack_named`; `None` stays."""
    if state is None:
        return None
    return {
        name.removeprefix(f"{prefix}_"): value
        for name, value in state.items()
        if name.startswith(f"{prefix}_")
    }
