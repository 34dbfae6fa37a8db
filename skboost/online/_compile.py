"""Compilation of the loops over rows, where the extra ``fast`` is installed."""


def compiler():
    """The decorator that compiles, or None without the extra.

    What it makes is compiled at its first call, which takes seconds, and lets other
    threads run.
    """
    try:
        import numba
    except ImportError:
        return None
    return numba.njit(nogil=True)


def compiled(function):
    """A function compiled where that is possible; the same numbers to rounding."""
    compile_it = compiler()
    return function if compile_it is None else compile_it(function)
