"""Keras models that are trained by `fit`."""

import time

import keras
import numpy as np
from keras import ops


class End(keras.callbacks.Callback):
    """Keeps the time at which the last step ended. On TensorFlow, `fit` may
    then wait as long again for a thread that tunes how arrays are read."""

    def on_train_end(self, logs=None):
        self.time = time.perf_counter()


class Fitted:
    """Base class of contenders whose steps are run by `fit`.

    Subclasses implement `fit(number, **keywords)`, which returns Keras' history
    and passes the keywords to Keras' `fit`.
    """

    def losses(self, steps):
        return self.fit(steps).history["loss"][0]

    def steps(self, number):
        end = End()
        self.fit(number, callbacks=[end])
        return end.time

    def product(self, rows, inner, columns, dtype):
        left = ops.ones((rows, inner), dtype)
        right = ops.ones((inner, columns), dtype)
        backend = keras.backend.backend()
        multiply = ops.matmul
        if backend == "jax":
            import jax

            multiply = jax.jit(ops.matmul)

        def run():
            found = multiply(left, right)
            if backend == "jax":
                return found.block_until_ready()
            return float(found[0, 0])

        return run


class Trained(Fitted):
    """A Keras model that starts from the weights of the case.

    `batches` turns the arrays of `Case.batches` into the data of `fit`.
    """

    def __init__(self, case, model, loss, batches):
        self.case = case
        self.model = model
        self.batches = batches
        draw(case, model)
        model.compile(keras.optimizers.SGD(1.0, global_clipnorm=5.0), loss)

    def fit(self, number, **keywords):
        batches = self.batches(*self.case.batches(number))
        return self.model.fit(batches, shuffle=False, verbose=0, **keywords)


def draw(case, model):
    """Assigns the weights of the case to a model."""
    variables = model.trainable_variables
    values = case.draw([tuple(variable.shape) for variable in variables])
    for variable, value in zip(variables, values):
        variable.assign(value)


class LayerAlone(Fitted):
    """Runs a layer forward and backward; the loss is the mean square output."""

    def __init__(self, case, layer):
        self.case = case
        inputs = keras.Input((case.time, case.embedding), case.batch)
        self.model = keras.Model(inputs, layer(inputs))
        draw(case, self.model)
        # A learning rate of zero keeps the weights: all steps are the same.
        self.model.compile(
            keras.optimizers.SGD(0.0),
            lambda y_true, y_pred: ops.mean(ops.square(y_pred)),
        )
        self.inputs = case.inputs()
        self.targets = np.zeros((case.batch, 1), "float32")

    def fit(self, number, **keywords):
        inputs = np.concatenate([self.inputs] * number)
        targets = np.concatenate([self.targets] * number)
        return self.model.fit(
            inputs,
            targets,
            self.case.batch,
            shuffle=False,
            verbose=0,
            **keywords,
        )
