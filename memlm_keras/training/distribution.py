"""Trains on several devices: JAX shards the rows of batches; on TensorFlow,
each replica has its own rows, and sums are over all replicas."""

import contextlib
import functools

import keras
import numpy as np
from keras import ops
from keras import tree


def data_parallel(devices=None):
    """Returns a scope in which models are trained on several devices.

    The scope is `keras.distribution.DataParallel(...).scope()` on JAX, and
    `tf.distribute.MirroredStrategy(...).scope()` on TensorFlow. Build, train
    and evaluate the model within `with data_parallel():`.

    Args:
        devices: Integer, number of devices; `None` for all.

    Raises:
        ValueError: Too few devices are available, or the backend is PyTorch.

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
            "KERAS_BACKEND=jax, or write a training loop with "
            "`DistributedDataParallel`; see docs/how_to/several_devices.md."
        )
    if backend == "jax":
        names = keras.distribution.list_devices()
    else:
        import tensorflow as tf

        kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
        names = [d.name for d in tf.config.list_logical_devices(kind)]
    if devices is not None and not 1 <= devices <= len(names):
        raise ValueError(
            f"`devices` must be 1 to {len(names)}; available: "
            f"{', '.join(names)}. Received: devices={devices}"
        )
    names = names[:devices]
    if backend == "jax":
        return keras.distribution.DataParallel(devices=names).scope()
    # On CPUs, the default reduction uses collective operations, which wait for
    # each other in one thread pool and deadlock if the pool is small.
    reduction = tf.distribute.ReductionToOneDevice() if kind == "CPU" else None
    return tf.distribute.MirroredStrategy(names, reduction).scope()


def num_devices(model):
    """Returns the number of devices that share the rows of batches."""
    if keras.backend.backend() == "tensorflow":
        strategy = getattr(model, "distribute_strategy", None)
        return strategy.num_replicas_in_sync if strategy else 1
    distribution = keras.distribution.distribution()
    if distribution is None:
        return 1
    mesh = distribution.device_mesh
    return mesh.shape[mesh.axis_names.index(distribution.batch_dim_name)]


def variable_scope(model):
    """Returns a scope that places new variables on the model's devices."""
    if keras.backend.backend() == "tensorflow":
        return model.distribute_strategy.scope()
    return contextlib.nullcontext()


def divisible(rows, model):
    """Rounds a number of rows up to a multiple of the model's devices."""
    return rows + -rows % num_devices(model)


def require_divisible(rows, model):
    """Raises `ValueError` unless `rows` is `None` or a multiple of devices."""
    if rows is not None and rows != (enough := divisible(rows, model)):
        raise ValueError(
            "The rows of a batch must be a multiple of the number of devices. "
            f"Received: batches of {rows} rows for {num_devices(model)} "
            f"devices. Use batch_size={enough}, or fewer devices."
        )


# === Rows ===


def row_layout(shape):
    """Returns the layout that shards rows over devices, or `None`."""
    distribution = keras.distribution.distribution()
    # With several processes, each process keeps all rows of a state, since it
    # cannot save rows that only another process has.
    if distribution is None or distribution.num_processes > 1:
        return None
    return distribution.get_data_layout(shape)


def shard_rows(tensor):
    """Shards the rows of a tensor over the devices, if possible."""
    layout = row_layout(tensor.shape)
    if layout is None or tensor.shape[0] % num_devices(None):
        return tensor
    return keras.distribution.distribute_tensor(tensor, layout)


def rows_of_replica(tensor):
    """Selects the rows of this replica from a tensor with all rows."""
    replica = _replica()
    if replica is None:
        return tensor
    return ops.slice(tensor, *_part_of(replica, tensor.shape))


def num_replicas():
    """Returns the number of replicas that run each step."""
    replica = _replica()
    return 1 if replica is None else replica.num_replicas_in_sync


def assign_rows(variable, value):
    """Assigns this replica's rows in its own copy of a variable; `gather_rows`
    makes the copies equal."""
    # Do not gather rows in a forward pass: TensorFlow would start another
    # replica before this one ends, and Keras would mix their layer losses.
    replica = _replica()
    if replica is not None:
        begin, shape = _part_of(replica, variable.shape)
        # The static shape of a distributed batch may be unknown.
        value = ops.reshape(value, shape)
        value = ops.slice_update(ops.convert_to_tensor(variable), begin, value)
    variable.assign(value)


def gather_rows(model, variables):
    """Gives every replica the rows that the other replicas have assigned."""
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
    """Returns the rows of the first replica from a distributed batch."""
    results = model.distribute_strategy.experimental_local_results
    return tree.map_structure(lambda value: results(value)[0], batch)


# === Sums ===


def share_of_weight(weight, targets):
    """Returns the sum of this replica's sample weights, divided by the mean of
    the sums of all replicas."""
    # Keras averages the mean losses of replicas. Without this factor, tokens on
    # a replica with more padding would count more.
    replica = _replica()
    if replica is None:
        return 1
    if weight is None:
        weight = ops.ones_like(targets, dtype="float32")
    weight = ops.sum(ops.cast(weight, "float32"))
    total = replica.all_reduce("SUM", weight)
    mean = total / replica.num_replicas_in_sync
    return ops.divide_no_nan(weight, mean)


def set_clipping(model):
    """Clips in place on PyTorch, and clips the replicas' sums on TensorFlow."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    usual = keras.optimizers.Optimizer._clip_gradients
    own = getattr(type(optimizer), "_clip_gradients", None)
    if keras.backend.backend() == "torch" and own is usual:
        optimizer._clip_gradients = functools.partial(clip_in_place, optimizer)
    # On TensorFlow, Keras clips each replica's gradients before summing, so the
    # norm of the sum may exceed the limit.
    if keras.backend.backend() != "tensorflow" or num_devices(model) == 1:
        return
    import tensorflow as tf

    def clip(gradients):
        # Sparse gradients have one slice per occurrence of a word: sum them.
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        replica = _replica()
        if replica is not None:
            dense = replica.all_reduce("SUM", dense)
        return type(optimizer)._clip_gradients(optimizer, dense)

    # Keras has no public hook between computing and clipping gradients.
    optimizer._clip_gradients = clip
    optimizer._all_reduce_sum_gradients = list


def clip_in_place(optimizer, grads):
    """Clips gradients like Keras, but in place on PyTorch."""
    clips = (optimizer.global_clipnorm or 0) > 0
    if keras.backend.backend() != "torch" or not clips:
        return keras.optimizers.Optimizer._clip_gradients(optimizer, grads)
    import torch

    norm = torch.nn.utils.get_total_norm(grads)
    scale = torch.clamp(optimizer.global_clipnorm / norm, max=1.0)
    # As in Keras, an infinite norm makes the gradients NaN.
    torch._foreach_mul_(grads, scale + (norm - norm))
    return grads


def generator_states():
    """Returns the states of PyTorch's generators, one array per device."""
    if keras.backend.backend() != "torch":
        return []
    import torch

    states = [torch.get_rng_state()]
    if torch.cuda.is_available():
        states += torch.cuda.get_rng_state_all()
    return [state.numpy() for state in states]


def set_generator_states(states):
    """Restores the result of `generator_states`."""
    if keras.backend.backend() != "torch":
        return
    import torch

    cpu, *devices = (torch.from_numpy(np.array(state)) for state in states)
    torch.set_rng_state(cpu)
    for index, state in enumerate(devices):
        torch.cuda.set_rng_state(state, index)


def _replica():
    """Returns the context of this replica; `None` for a single replica."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return None
    return replica


def _part_of(replica, shape):
    """Returns the start indices and shape of a replica's rows in a tensor."""
    rows = shape[0] // replica.num_replicas_in_sync
    begin = [replica.replica_id_in_sync_group * rows]
    return [*begin, *[0] * (len(shape) - 1)], (rows, *shape[1:])
