"""Training on several devices: rows are dealt to them, sums are of all rows.

Keras does it in two ways. On JAX, `keras.distribution.DataParallel` lays out
the rows of each batch over devices, and a program means what it means on one
device. On TensorFlow, `tf.distribute.MirroredStrategy` runs the step on each
device by itself, a replica, with rows of its own; what is of all rows must
then be said, and is said here. On one device all of it does nothing.
"""

import contextlib

import keras
from keras import ops
from keras import tree


def data_parallel(devices=None):
    """Context in which models are made, trained and measured on devices.

    It is `keras.distribution.DataParallel(...).scope()` on JAX, and
    `tf.distribute.MirroredStrategy(...).scope()` on TensorFlow.

    Args:
        devices: integer, how many of the devices that there are; `None` for
            all.

    Returns:
        A context manager.

    Raises:
        ValueError: for more devices than there are, and on PyTorch.

    Example:

    >>> with memlm_keras.training.data_parallel():  # doctest: +SKIP
    ...     lm = memlm_keras.LanguageModel(...)
    ...     lm.compile("adam")
    ...     lm.fit(batches)
    """
    backend = keras.backend.backend()
    if backend == "torch":
        raise ValueError(
            "`data_parallel` needs JAX or TensorFlow: with PyTorch, the `fit` "
            "of Keras trains on one device. Received: backend torch. Set "
            "KERAS_BACKEND=jax, or train by a loop of your own with "
            "`DistributedDataParallel`, as docs/how_to/several_devices.md does."
        )
    if backend == "jax":
        names = keras.distribution.list_devices()
    else:
        import tensorflow as tf

        kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
        names = [d.name for d in tf.config.list_logical_devices(kind)]
    if devices is not None and not 1 <= devices <= len(names):
        raise ValueError(
            f"`devices` must be 1 to {len(names)}, as there are "
            f"{', '.join(names)}. Received: devices={devices}"
        )
    names = names[:devices]
    if backend == "jax":
        return keras.distribution.DataParallel(devices=names).scope()
    # Of CPUs it would take collective operations, which wait for each other in
    # threads of one pool, and of a small one for ever.
    reduction = None
    if kind == "CPU":
        reduction = tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy(names, reduction).scope()


def num_devices(model):
    """Number of devices that the rows of a model's batches are dealt to."""
    if keras.backend.backend() == "tensorflow":
        return model.distribute_strategy.num_replicas_in_sync
    distribution = keras.distribution.distribution()
    if distribution is None:
        return 1
    mesh = distribution.device_mesh
    return mesh.shape[mesh.axis_names.index(distribution.batch_dim_name)]


def variable_scope(model):
    """Context in which a variable is made where those of a model are."""
    if keras.backend.backend() == "tensorflow":
        return model.distribute_strategy.scope()
    return contextlib.nullcontext()


def require_divisible(rows, devices):
    """Raises `ValueError` unless rows can be dealt to so many devices.

    Args:
        rows: integer, rows of a batch; or `None`, for any.
        devices: integer.
    """
    if rows is not None and rows % devices:
        raise ValueError(
            "The rows of a batch must be a multiple of the number of devices, "
            "so that each has as many and keeps the state of its own. "
            f"Received: batches of {rows} rows for {devices} devices. Take "
            f"batch_size={rows + -rows % devices}, or fewer devices."
        )


# === Rows ===


def row_layout(shape):
    """Layout of a variable that has the rows of a batch; `None` for none."""
    distribution = keras.distribution.distribution()
    # Other processes' rows could not be saved: there, each has all.
    if distribution is None or distribution.num_processes > 1:
        return None
    return distribution.get_data_layout(shape)


def deal(tensor):
    """Lays out the rows of a tensor over the devices, where that can be.

    Args:
        tensor: tensor `(rows, ...)`.

    Returns:
        An equal tensor.
    """
    layout = row_layout(tensor.shape)
    if layout is None or tensor.shape[0] % num_devices(None):
        return tensor
    return keras.distribution.distribute_tensor(tensor, layout)


def rows_of_replica(tensor):
    """The rows of this replica, `(rows / replicas, ...)`, of all `(rows, ...)`.

    As strategies deal them: the first replica has the first rows.
    """
    replica = _replica()
    if replica is None:
        return tensor
    return ops.slice(tensor, *_part_of(replica, tensor.shape))


def num_replicas():
    """Number of replicas that run a step, each with rows of its own."""
    replica = _replica()
    return 1 if replica is None else replica.num_replicas_in_sync


def assign_rows(variable, value):
    """Assigns the rows of this replica, or all where there is no other.

    Each replica writes to its own copy, and nothing is exchanged: that would
    let another replica run in the middle of a forward pass, whose losses Keras
    keeps in one list. `gather_rows` makes the copies equal.
    """
    replica = _replica()
    if replica is not None:
        begin, shape = _part_of(replica, variable.shape)
        # Batches that are dealt may not say how many rows they have.
        value = ops.reshape(value, shape)
        value = ops.slice_update(ops.convert_to_tensor(variable), begin, value)
    variable.assign(value)


def gather_rows(model, variables):
    """Gives all copies of variables the rows that each replica has written."""
    devices = num_devices(model)
    if keras.backend.backend() != "tensorflow" or devices == 1:
        return
    results = model.distribute_strategy.experimental_local_results
    for variable in variables:
        rows = variable.shape[0] // devices
        parts = [
            part[index * rows : (index + 1) * rows]
            for index, part in enumerate(results(variable.value))
        ]
        variable.assign(ops.concatenate(parts))


def of_first_replica(model, batch):
    """The first replica's part of a batch that TensorFlow has dealt."""
    results = model.distribute_strategy.experimental_local_results
    return tree.map_structure(lambda value: results(value)[0], batch)


# === Sums ===


def share_of_weight(weight, targets):
    """Share of this replica in the mean over the rows of all replicas.

    Keras takes the mean of the means of replicas, so that a token would count
    more beside padding than beside tokens. Each mean times its share gives the
    mean over all rows.

    Args:
        weight: tensor, what the mean was divided by the sum of; `None` for
            ones.
        targets: tensor, of which the mean is, one number each.

    Returns:
        Float32 scalar tensor, in the mean over replicas 1; or the number 1.
    """
    replica = _replica()
    if replica is None:
        return 1
    if weight is None:
        weight = ops.ones_like(targets, dtype="float32")
    weight = ops.sum(ops.cast(weight, "float32"))
    mean = _sum_of_all(weight) / replica.num_replicas_in_sync
    return ops.divide_no_nan(weight, mean)


def clip_sum_of_gradients(model):
    """Makes an optimizer clip the sum of the gradients of replicas.

    On TensorFlow, Keras clips the gradient of each replica by itself and sums
    them then: a norm of 5 would be one of up to 5 times the replicas.

    Args:
        model: compiled Keras model.
    """
    if keras.backend.backend() != "tensorflow" or num_devices(model) == 1:
        return
    import tensorflow as tf

    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)

    def clip(gradients):
        # A word that occurs twice has two slices of a gradient, whose norm is
        # that of their sum.
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        return type(optimizer)._clip_gradients(optimizer, _sum_of_all(dense))

    # There is no public place between gradients and their clipping.
    optimizer._clip_gradients = clip
    optimizer._all_reduce_sum_gradients = list


def _replica():
    """Context of the replica that runs, `None` if there is no other."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return None
    return replica


def _part_of(replica, shape):
    """Where the rows of a replica begin in a tensor, and their shape."""
    rows = shape[0] // replica.num_replicas_in_sync
    begin = [replica.replica_id_in_sync_group * rows]
    return [*begin, *[0] * (len(shape) - 1)], (rows, *shape[1:])


def _sum_of_all(tensors):
    replica = _replica()
    return tensors if replica is None else replica.all_reduce("SUM", tensors)
