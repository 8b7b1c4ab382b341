"""Adam with PyTorch's fused kernel."""

import keras

from memlm_keras.training.distribution import clip_in_place


@keras.saving.register_keras_serializable(package="memlm_keras")
class FusedAdam(keras.optimizers.Adam):
    """`keras.optimizers.Adam` that uses PyTorch's fused kernel on PyTorch.

    Equations, arguments and variables are the same as in Keras' Adam, so
    training can continue with either optimizer. Keras runs one operation after
    another over all weights, which takes as long as the rest of the step if the
    vocabulary is large. On TensorFlow and JAX, this is Keras' Adam.

    Example:

    >>> optimizer = memlm_keras.training.FusedAdam(0.25, global_clipnorm=5.0)
    >>> float(optimizer.learning_rate)
    0.25
    """

    _clip_gradients = clip_in_place

    def _backend_update_step(self, grads, variables, learning_rate):
        if keras.backend.backend() != "torch":
            return super()._backend_update_step(grads, variables, learning_rate)
        import torch
        from torch.optim.adam import adam

        def values(kept):
            return [kept[place].value for place in places]

        places = [*map(self._get_variable_index, variables)]
        # Keras puts the bias correction into the rate, and adds epsilon to the
        # uncorrected root. A large step number turns off the kernel's own
        # correction. The rate stays a tensor to avoid synchronizing the GPU.
        step = keras.ops.cast(self.iterations, "float32") + 1.0
        rate = learning_rate * keras.ops.sqrt(1.0 - self.beta_2**step)
        rate = rate / (1.0 - self.beta_1**step)
        with torch.no_grad():
            adam(
                [variable.value for variable in variables],
                [g.to(v.value.dtype) for g, v in zip(grads, variables)],
                values(self._momentums),
                values(self._velocities),
                values(self._velocity_hats) if self.amsgrad else [],
                [torch.full_like(step, 1e9) for _ in places],
                fused=True,
                amsgrad=self.amsgrad,
                beta1=self.beta_1,
                beta2=self.beta_2,
                lr=rate,
                weight_decay=0.0,
                eps=self.epsilon,
                maximize=False,
            )
