"""Derivatives by finite differences."""

import numpy as np


def central_differences(function, arrays):
    """Computes derivatives of the number `function(arrays)` for each array.

    Args:
        function: callable from a list of float64 arrays to a number.
        arrays: list of float64 arrays, which are unchanged after the call.

    Returns:
        List of float64 arrays of the same shapes.
    """
    step = 1e-6
    differences = [np.zeros_like(array) for array in arrays]
    for array, difference in zip(arrays, differences):
        for index in np.ndindex(array.shape):
            kept = array[index]
            array[index] = kept + step
            above = function(arrays)
            array[index] = kept - step
            below = function(arrays)
            array[index] = kept
            difference[index] = (above - below) / (2 * step)
    return differences


def assert_derivatives(gradients, loss, reference_loss, values):
    """Asserts that gradients equal the central differences of a reference.

    Args:
        gradients: the fixture `gradients`.
        loss: function from a list of tensors to a scalar.
        reference_loss: the same function for float64 arrays.
        values: list of float32 arrays, the point at which to differentiate.
    """
    found = gradients(loss, values)
    expected = central_differences(
        reference_loss, [value.astype("float64") for value in values]
    )
    for gradient, difference in zip(found, expected, strict=True):
        np.testing.assert_allclose(gradient, difference, rtol=1e-3, atol=1e-4)


def assert_directional_derivatives(
    gradients, loss, reference_loss, values, directions=1
):
    """Asserts that gradients equal central differences in random directions of
    each array, since long sequences have too many entries for
    `assert_derivatives`.

    Args:
        gradients, loss, reference_loss, values: as for `assert_derivatives`.
        directions: int, number of directions for each array.
    """
    found = gradients(loss, values)
    values = [value.astype("float64") for value in values]
    random, step = np.random.default_rng(4), 1e-6
    for index, (value, gradient) in enumerate(zip(values, found, strict=True)):
        for _ in range(directions):
            direction = random.normal(size=value.shape)
            changed = list(values)
            changed[index] = value + step * direction
            above = reference_loss(changed)
            changed[index] = value - step * direction
            difference = (above - reference_loss(changed)) / (2 * step)
            # Typical size of a directional derivative.
            scale = np.linalg.norm(gradient)
            derivative = np.sum(gradient * direction)
            assert abs(derivative - difference) < 1e-3 * scale, index
