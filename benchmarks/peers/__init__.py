"""Contenders: each module has `make(case, variant, precision)`.

It returns an object with these methods:

* `losses(steps)`: mean loss of the first steps from the case's weights.
* `steps(number)`: runs steps and returns when they are done.
* `product(rows, inner, columns, dtype)`: a matrix product of the library, to
  measure the peak.
"""
