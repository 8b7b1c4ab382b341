"""Adam in one pass over the weights."""

import keras


@keras.saving.register_keras_serializable(package="memlm_keras")
class FusedAdam(keras.optimizers.Adam):
    """`keras.optimizers.Adam`, with PyTorch's fused kernel on PyTorch.

    The equations, arguments and variables are those of Keras' Adam, so each
    continues the training of the other. Keras computes them one operation after
    the other, and each reads and writes arrays of the size of the weights. For
    a large vocabulary, that takes as long as the model's own step. On
    TensorFlow and JAX, where XLA fuses the operations, nothing is different.
    On PyTorch, `global_clipnorm` scales the gradients in place, as
    `torch.nn.utils.clip_grad_norm_` does.

    Args:
        learning_rate, beta_1, beta_2, epsilon, amsgrad, **kwargs: as for
            `keras.optimizers.Adam`.

    Example:

    >>> optimizer = memlm_keras.training.FusedAdam(0.25, global_clipnorm=5.0)
    >>> float(optimizer.learning_rate)
    0.25
    """

    def _clip_gradients(self, grads):
        # Keras squares the gradients into new arrays.
        clips = (self.global_clipnorm or 0) > 0
        if keras.backend.backend() != "torch" or not clips:
            return super()._clip_gradients(grads)
        import torch

        norm = torch.nn.utils.get_total_norm(grads)
        scale = torch.clamp(self.global_clipnorm / norm, max=1.0)
        # Not a number for an infinite norm, as in Keras. In place, as PyTorch
        # clips: a new array of the size of the weights costs more than Adam.
        torch._foreach_mul_(grads, scale + (norm - norm))
        return grads

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        if keras.backend.backend() != "torch":
            return super()._backend_update_step(
                grads, trainable_variables, learning_rate
            )
        import torch
        from torch.optim.adam import adam

        def values(variables):
            return [variables[place].value for place in places]

        places = [*map(self._get_variable_index, trainable_variables)]
        # Keras corrects the rate and adds epsilon to the root itself, as the
        # kernel does after so many steps that it has nothing to correct. A
        # rate that is a tensor is not waited for on a GPU.
        step = keras.ops.cast(self.iterations, "float32") + 1.0
        rate = learning_rate * keras.ops.sqrt(1.0 - self.beta_2**step)
        rate = rate / (1.0 - self.beta_1**step)
        late = torch.full_like(step, 1e9)
        with torch.no_grad():
            adam(
                [variable.value for variable in trainable_variables],
                [
                    g.to(v.value.dtype)
                    for g, v in zip(grads, trainable_variables)
                ],
                values(self._momentums),
                values(self._velocities),
                values(self._velocity_hats) if self.amsgrad else [],
                [late.clone() for _ in places],
                fused=True,
                amsgrad=self.amsgrad,
                beta1=self.beta_1,
                beta2=self.beta_2,
                lr=rate,
                weight_decay=0.0,
                eps=self.epsilon,
                maximize=False,
            )
