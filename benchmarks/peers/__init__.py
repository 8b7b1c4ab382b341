"""Contenders: each module has `make(case, variant, precision)`.

It returns an object with `losses(steps)`, the mean loss of the first steps from
the case's weights, `steps(number)`, which does a number of steps and returns
when they are done, and `product(rows, inner, columns, dtype)`, a matrix product
of its library, for the peak.
"""
