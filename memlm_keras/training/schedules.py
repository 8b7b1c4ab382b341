"""Learning-rate schedules of the papers."""


def halve_after(epochs, factor=0.5):
    """Learning rate kept for some epochs and then halved at each one.

    Tran et al. (2016, Section 4) halve at each epoch after the fourth, Salton
    et al. (2017, Section 4) after the twelfth; of Zaremba et al. (2014) the
    factor is 0.5, 0.8 or 1 / 1.15, by the size of the model.

    Args:
        epochs: integer, number of epochs at the initial rate.
        factor: float in (0, 1), factor at each later epoch.

    Returns:
        A function for `keras.callbacks.LearningRateScheduler`.

    Raises:
        ValueError: if `epochs` is negative or `factor` not in (0, 1).

    Example:

    >>> scheduler = keras.callbacks.LearningRateScheduler(halve_after(4))
    """
    if epochs < 0:
        raise ValueError(f"`epochs` must not be negative. Received: {epochs}")
    if not 0 < factor < 1:
        raise ValueError(
            f"`factor` must lie between 0 and 1. Received: factor={factor}"
        )

    def schedule(epoch, learning_rate):
        return learning_rate * factor if epoch >= epochs else learning_rate

    return schedule
