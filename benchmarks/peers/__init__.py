"""Contenders; each module has a function `make(case, variant, precision)`.

`make` returns an object with these methods:

* `losses(steps)`: returns the mean loss of the first steps, with the initial
  weights of the case.
* `steps(number)`: runs steps, and waits until they end; may return the time of
  `time.perf_counter` at their end.
* `product(rows, inner, columns, dtype)`: returns a function that computes a
  matrix product with the library, whose speed is the peak.
"""
