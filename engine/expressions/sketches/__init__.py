"""Functions of Apache DataSketches' sketches, which are BINARY: theta, tuple, KLL and HLL."""
