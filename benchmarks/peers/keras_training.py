"""Keras models that are trained by `fit`."""

import time

import keras
from keras import ops


class End(keras.callbacks.Callback):
    """Keeps the time at which the last step ended. On TensorFlow, `fit` may
    then wait as long again for a thread that tunes how arrays are read."""

    def on_train_end(self, logs=None):
        self.time = time.perf_counter()


class Contender:
    """Base class of contenders, with matrix products."""

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


class Fitted(Contender):
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


class Trained(Fitted):
    """A Keras model that starts from the weights of the case.

    `batches` turns the arrays of `Case.batches` into the data of `fit`.
    """

    def __init__(self, case, model, loss, batches, **arguments):
        self.case = case
        self.model = model
        self.batches = batches
        draw(case, model)
        optimizer = keras.optimizers.SGD(1.0, global_clipnorm=5.0)
        model.compile(optimizer, loss, **arguments)

    def fit(self, number, **keywords):
        batches = self.batches(*self.case.batches(number))
        return self.model.fit(batches, shuffle=False, verbose=0, **keywords)


def draw(case, model):
    """Assigns the weights of the case to a model."""
    variables = model.trainable_variables
    values = case.draw([tuple(variable.shape) for variable in variables])
    for variable, value in zip(variables, values):
        variable.assign(value)


class LayerAlone(Contender):
    """Runs a layer forward and backward; the loss is the mean square output.

    Like layers by hand, the layer is run without an optimizer or a data reader.
    """

    def __init__(self, case, layer):
        self.layer = layer
        self.inputs = ops.convert_to_tensor(case.inputs())
        layer(self.inputs)
        draw(case, layer)
        self.run = self._runner()

    def _runner(self):
        """Returns a function that returns the loss and a gradient."""
        layer, backend = self.layer, keras.backend.backend()
        weights = layer.trainable_variables

        def loss_of(outputs):
            return ops.mean(ops.square(outputs))

        if backend == "jax":
            import jax

            others = [v.value for v in layer.non_trainable_variables]

            def of_values(values):
                outputs, _ = layer.stateless_call(
                    values, others, self.inputs, training=True
                )
                return loss_of(outputs)

            both = jax.jit(jax.value_and_grad(of_values))
            values = [weight.value for weight in weights]
            return lambda: both(values)
        if backend == "tensorflow":
            import tensorflow as tf

            @tf.function
            def run():
                with tf.GradientTape() as tape:
                    loss = loss_of(layer(self.inputs, training=True))
                return loss, tape.gradient(loss, [w.value for w in weights])

            return run

        def run():
            layer.zero_grad()
            loss = loss_of(layer(self.inputs, training=True))
            loss.backward()
            return loss.detach(), [w.value.grad for w in weights]

        return run

    def losses(self, steps):
        for _ in range(steps):
            loss, gradients = self.run()
        ops.convert_to_numpy(gradients[0])
        return float(loss)

    def steps(self, number):
        self.losses(number)
