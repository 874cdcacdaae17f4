"""The scripts and tests of tests/gpu compile, and what they use of Tarn exists.

They run on a machine with a GPU alone, so nothing else notices a name that they have kept.
"""

import ast
import importlib
import json
import pathlib
import subprocess
import sys
import types

import pytest
import tarn

SCRIPTS = sorted((pathlib.Path(__file__).parents[2] / "tests/gpu").glob("*.py"))


def bound_modules(tree):
    """Return what the imports of Tarn in a file bind: objects by their names in the file."""
    bound = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "tarn":
                    module = importlib.import_module(alias.name)
                    bound[alias.asname or "tarn"] = module if alias.asname else tarn
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tarn":
            for alias in node.names:
                bound[alias.asname or alias.name] = member(node.module, alias.name)
    return bound


def member(module, name):
    """Return an attribute of a module, or its submodule; raise if it has neither."""
    found = importlib.import_module(module)
    if hasattr(found, name):
        return getattr(found, name)
    return importlib.import_module(f"{module}.{name}")


def chain(node):
    """Return the names of `a.b.c` in their order; None if it begins with another expression."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else None


def unknown(source):
    """Return the attributes of Tarn's modules that a source uses and Tarn lacks, sorted."""
    tree = ast.parse(source)
    bound, lacking = bound_modules(tree), set()
    for node in ast.walk(tree):
        names = chain(node) if isinstance(node, ast.Attribute) else None
        found = bound.get(names[0]) if names else None
        for place, name in enumerate(names[1:] if names else []):
            if not isinstance(found, types.ModuleType):
                break
            if not hasattr(found, name):
                lacking.add(".".join(names[: place + 2]))
                break
            found = getattr(found, name)
    return sorted(lacking)


def report():
    """Return {file: what Tarn lacks, or the name of a library that the file needs}."""
    found = {}
    for path in SCRIPTS:
        try:
            found[path.name] = unknown(path.read_text())
        except ModuleNotFoundError as error:
            if error.name.partition(".")[0] == "tarn":
                raise
            found[path.name] = error.name
    return found


@pytest.fixture(scope="module")
def reported():
    """Run report() in a process of its own: Tarn's modules import PyTorch, if it is there."""
    code = "import json, test_gpu_scripts; print(json.dumps(test_gpu_scripts.report()))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=pathlib.Path(__file__).parent, capture_output=True, text=True
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", [path.name for path in SCRIPTS])
def test_what_a_script_uses_of_tarn_exists(reported, name):
    if isinstance(reported[name], str):
        pytest.skip(f"{reported[name]} is not installed")
    assert reported[name] == []


def test_a_name_that_tarn_lacks_is_seen():
    source = "import tarn.ipc\nfrom tarn import mr as m\ntarn.ipc.counts()\nm.Old()\ntarn.old.x\n"
    assert unknown(source) == ["m.Old", "tarn.old"]
    with pytest.raises(ModuleNotFoundError):
        unknown("def f():\n    from tarn import _no_module\n")
