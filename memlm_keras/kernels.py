"""Weights of one initializer, none with the values of another."""

from memlm_keras.arguments import distinct


class DistinctKernels:
    """Mix-in for layers with a `kernel_initializer`."""

    def add_kernel(self, name, shape):
        """Adds a trainable weight whose values are those of no other.

        Args:
            name: string.
            shape: tuple of integers.

        Returns:
            The weight.
        """
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=distinct(self.kernel_initializer, len(self.weights)),
        )
