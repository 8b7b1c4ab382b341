"""Contenders: each module has `make(case, variant, precision)`.

What it returns has `losses(steps)`, the mean loss of the first steps from the
case's weights, `steps(number)`, which does so many steps and returns when they
are done, and `product(rows, inner, columns, dtype)`, a matrix product of its
library, for the peak.
"""
