"""Define the ranges that several cards share."""

from search_spaces.space import Range

UNIT = Range(0, 1)
COSINE = Range(-1, 1)
GAP = Range(0, 2)  # between two cosines, or between two distances of unit vectors
DISTANCE = Range(0, 2)  # between two unit vectors
SCALE = Range(1, 100, log=True)
POSITIVE = Range(1e-6, 1e6)
# Learning rates of a loss's own weights. The optima of the reality check alone lie between 5e-5
# and 0.2, so every loss searches the same six orders of magnitude.
RATE = Range(1e-6, 1, log=True)
RATES = Range(1e-9, 100)
