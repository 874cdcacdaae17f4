"""Generators of allocation traces, a file for each kind of program; ../generate.py runs them.

Each has `generate(trace, rng)`, which calls `trace.allocate()` and `trace.free()` until
`trace.is_done()`. trace.py has what they share, sizes.py the distributions.
"""
