"""Each module has a function `make(case, variant, precision)`.

`make` returns an object with these methods:

* `losses(steps)`: returns the mean loss of the first steps, with the initial
  weights of the case.
* `steps(number)`: runs steps, and waits for them.
* `product(rows, inner, columns, dtype)`: returns a function that computes a
  matrix product of the library, to measure the peak.
"""
