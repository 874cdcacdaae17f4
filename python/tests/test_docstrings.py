"""The docstrings of the public names: a first sentence for an index, and a signature."""

import ast
import importlib.util
import inspect
import re
import types
from pathlib import Path

import pytest
import tarn
import tarn.ipc
import tarn.metrics
import tarn.mr
import tarn.nrt
import tarn.nrt.aot
import tarn.numba
import tarn.prune
import tarn.rmm
import tarn.rmm.allocators.cupy

MODULES = (
    tarn, tarn.metrics, tarn.mr, tarn.numba, tarn.ipc, tarn.nrt, tarn.nrt.aot, tarn.prune,
    tarn.rmm, tarn.rmm.mr, tarn.rmm.rmm, tarn.rmm.statistics, tarn.rmm._cuda.gpu,
    tarn.rmm.allocators.cupy, tarn.rmm.pylibrmm.device_buffer, tarn.rmm.pylibrmm.helper,
    tarn.rmm.pylibrmm.logger, tarn.rmm.pylibrmm.utils,
)  # fmt: skip
if importlib.util.find_spec("distributed") is not None:
    import tarn.dask

    MODULES += (tarn.dask,)
STUB = Path(tarn.__file__).parent / "_tarn.pyi"
WORDS_MAX = 25

METHODS = (
    types.FunctionType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    classmethod,
    staticmethod,
)
ATTRIBUTES = (property, types.GetSetDescriptorType, types.MemberDescriptorType)


def problem(docstring):
    """Return the error of a docstring; None if it is valid."""
    if not docstring or not docstring.strip():
        return "there is no docstring"
    paragraph = inspect.cleandoc(docstring).split("\n\n")[0]
    sentence = re.match(r".*?\.(?=\s|$)", paragraph, re.DOTALL)
    if sentence is None:
        return f"the first sentence does not end with a period: {paragraph!r}"
    words = len(sentence[0].split())
    if words > WORDS_MAX:
        return f"the first sentence has {words} words, more than {WORDS_MAX}: {sentence[0]!r}"
    return None


def names_of(module):
    """Return the names of `__all__`; without it, the public names that the module defines."""
    if hasattr(module, "__all__"):
        return module.__all__
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def members_of(cls):
    """Return the public methods and attributes of a class, including those of Tarn's private bases."""
    found = {}
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] != "tarn":
            continue
        slots = base.__dict__.get("__slots__", ())  # fields, which the class documents
        for name, value in vars(base).items():
            if name.startswith("_") or name in slots:
                continue
            if isinstance(value, (*METHODS, *ATTRIBUTES)):
                found.setdefault(name, value)
    return found


def public():
    """Yield all public modules, classes, functions, methods and attributes, by name."""
    found = {}
    for module in MODULES:
        found[module.__name__] = module
        classes = [tarn.numba._ManagerOperations] if module is tarn.numba else []
        for name in names_of(module):
            thing = vars(module).get(name)  # the class of tarn.numba needs Numba
            if callable(thing):
                found[f"{module.__name__}.{name}"] = thing
            if inspect.isclass(thing):
                classes.append(thing)
        for cls in classes:
            for name, member in members_of(cls).items():
                found[f"{module.__name__}.{cls.__name__}.{name}"] = member
    return found


def stub_nodes(tree, prefix=""):
    """Yield all classes and functions of a stub that have a docstring of their own, by name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield prefix + node.name, node
            yield from stub_nodes(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and node.name not in ("__init__", "__new__"):
            yield prefix + node.name, node


@pytest.mark.parametrize("name, thing", public().items())
def test_each_docstring_begins_with_a_short_sentence(name, thing):
    assert problem(thing.__doc__) is None, name


@pytest.mark.parametrize("name, thing", public().items())
def test_each_callable_has_a_signature(name, thing):
    if isinstance(thing, (types.ModuleType, *ATTRIBUTES)):
        return
    if inspect.isclass(thing) and issubclass(thing, (Exception, tuple, int)):
        return
    if isinstance(thing, (classmethod, staticmethod)):
        thing = thing.__func__
    inspect.signature(thing)


def test_the_walk_finds_methods_properties_and_bases():
    assert {
        "tarn.DeviceBuffer.to_device",
        "tarn.DeviceBuffer.size",
        "tarn.DriverInfo.path",
        "tarn.mr.PoolMemoryResource.statistics",
        "tarn.mr.PoolMemoryResource.maximum_pool_size",
        "tarn.numba._ManagerOperations.memalloc",
        "tarn.numba._ManagerOperations.mempin",
        "tarn.ipc.Opened.close",
        "tarn.nrt.aot.compile_ahead",
        "tarn.prune.Report.removed",
    } <= set(public())


def test_the_stub_documents_what_it_declares():
    first = {}  # only one of several overloads has the docstring
    for name, node in stub_nodes(ast.parse(STUB.read_text())):
        first.setdefault(name, problem(ast.get_docstring(node)))
    wrong = {name: found for name, found in first.items() if found}
    assert wrong == {}


@pytest.mark.parametrize(
    "docstring, found",
    [
        (None, "no docstring"),
        ("  \n ", "no docstring"),
        ("Return the size", "period"),
        ("Return the size\n\nThe size is in bytes.", "period"),
        (" ".join(["word"] * 26) + ".", "26 words"),
    ],
)
def test_a_planted_violation_is_found(docstring, found):
    assert found in problem(docstring)


@pytest.mark.parametrize(
    "docstring",
    [
        "Return the size.",
        " ".join(["word"] * 25) + ".",
        "Return the size of tarn.mr.PoolBlock\n    in bytes. It is exact.\n\n    Notes",
    ],
)
def test_a_docstring_without_violation_passes(docstring):
    assert problem(docstring) is None


def test_every_name_in_all_is_there():
    for module in MODULES:
        names = getattr(module, "__all__", [])
        assert len(names) == len(set(names))
        assert set(names) - {"TarnNumbaManager"} <= set(dir(module))
