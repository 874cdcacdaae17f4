"""Code for the beginning of a program that runs code in another interpreter of its process."""

RUN = '''
def run_in_subinterpreter(code):
    """Run code in a new interpreter, and return its error as text."""
    try:
        import _interpreters as interpreters  # since Python 3.13
    except ModuleNotFoundError:
        import _xxsubinterpreters as interpreters
    try:
        error = interpreters.run_string(interpreters.create(), code)
    except interpreters.RunFailedError as raised:  # up to Python 3.12
        error = raised
    return getattr(error, "formatted", str(error))
'''
