"""docs/rmm-names.md against the installed RMM: all names are listed, and all listed names exist.

RMM is read with ast, not imported: importing it needs a driver.
"""

import ast
import importlib
import importlib.util
import re
from pathlib import Path

import pytest
import tarn

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "rmm-names.md"
PACKAGE = Path(tarn.__file__).parent

# Each table, and the file of RMM that has its names.
MODULES = {
    "rmm": "__init__.py",
    "rmm.mr": "mr/__init__.py",
    "rmm.mr.experimental": "mr/experimental.py",
    "rmm.statistics": "statistics.py",
    "rmm.allocators.cupy": "allocators/cupy.py",
    "rmm.allocators.numba": "allocators/numba.py",
    "rmm.allocators.torch": "allocators/torch.py",
    "rmm.pylibrmm.stream": "pylibrmm/stream.pyi",
    "rmm.pylibrmm.cuda_stream_pool": "pylibrmm/cuda_stream_pool.pyi",
    "rmm.pylibrmm.device_buffer": "pylibrmm/device_buffer.pyi",
    "rmm.pylibrmm.logger": "pylibrmm/logger.pyi",
    "rmm.pylibrmm.utils": "pylibrmm/utils.pyi",
    "rmm.pylibrmm.helper": "pylibrmm/helper.pyi",
    "rmm._cuda.gpu": "_cuda/gpu.py",
}
# Files whose names are those of another one, or for RMM's own use.
OTHERS = {
    "_version.py", "rmm.py", "librmm/__init__.py", "pylibrmm/__init__.py",
    "pylibrmm/memory_resource/__init__.py", "pylibrmm/memory_resource/_memory_resource.pyi",
    "pylibrmm/memory_resource/experimental.pyi", "allocators/__init__.py",
}  # fmt: skip


def rmm_folder():
    spec = importlib.util.find_spec("rmm")
    if spec is None:
        pytest.skip("rmm is not installed (./check installs it)")
    return Path(spec.origin).parent


def names_of(path):
    """Return the names of `__all__`, or else the public names that the file defines."""
    defined = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return set(ast.literal_eval(node.value))
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            defined.add(node.name)
        elif isinstance(node, ast.Assign):
            defined.add(node.targets[0].id)
        elif isinstance(node, ast.AnnAssign):
            defined.add(node.target.id)
    return {name for name in defined if not name.startswith("_") and len(name) > 1}


def members(path, inherited=False):
    """Return public members by class, with their arguments: {class: {member: arguments}}."""
    classes = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found = classes.setdefault(node.name, {})
            for base in node.bases if inherited else ():
                found.update(classes.get(getattr(base, "id", None), {}))
            for item in node.body:
                if isinstance(item, ast.FunctionDef):
                    taken = [*item.args.args, *item.args.kwonlyargs]
                    found[item.name] = [a.arg for a in taken if a.arg not in ("self", "cls")]
                elif isinstance(item, ast.AnnAssign):
                    found[item.target.id] = []
    return classes


def rmm_members():
    """Return the members of RMM's classes of buffers and resources."""
    folder = rmm_folder() / "pylibrmm"
    buffers = members(folder / "device_buffer.pyi")
    resources = members(folder / "memory_resource" / "_memory_resource.pyi")
    return {"DeviceBuffer": buffers["DeviceBuffer"], **resources}


def rows(heading):
    """Return {name: (word, note)} of the table under a heading."""
    section = TABLE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| `([^`]+)` \| (\w+) \| ?(.*?) ?\|$", section, re.M)
    return {name: (word, note) for name, word, note in found}


@pytest.mark.parametrize("module", MODULES)
def test_a_table_has_every_name_of_its_module_and_no_other(module):
    assert set(rows(f"`{module}`")) == names_of(rmm_folder() / MODULES[module])


def test_every_module_of_rmm_has_a_table():
    folder = rmm_folder()
    files = {
        str(path.relative_to(folder))
        for suffix in ("py", "pyi")
        for path in folder.rglob(f"*.{suffix}")
    }
    assert files - set(MODULES.values()) - OTHERS <= {"__init__.pyi"}
    for file in sorted(OTHERS - {"allocators/__init__.py"}):
        module = file.rpartition(".")[0].removesuffix("/__init__").replace("/", ".")
        assert importlib.import_module(f"tarn.rmm.{module}")


@pytest.mark.parametrize("module", MODULES)
def test_what_a_table_says_is_there_is_there(module):
    found = rows(f"`{module}`")
    ours = importlib.import_module(f"tarn.{module}")
    for name, (word, note) in found.items():
        assert word in ("same", "different", "absent")
        assert (word == "same") == (note == ""), name
        if word != "absent":
            assert hasattr(ours, name), name


def test_the_table_has_every_member_of_the_classes():
    listed = {
        f"{owner}.{member}"
        for owner, found in rmm_members().items()
        for member in found
        if not member.startswith("_")
    }
    assert set(rows("Members")) == listed
    for name in listed:
        owner, member = name.split(".")
        place = tarn.DeviceBuffer if owner == "DeviceBuffer" else getattr(tarn.mr, owner)
        assert hasattr(place, member), name


def test_classes_and_members_take_the_arguments_of_rmm():
    theirs = rmm_members()
    ours = {
        **members(PACKAGE / "_tarn.pyi"),
        **members(PACKAGE / "mr.py", inherited=True),
        **members(PACKAGE / "_python_resources.py"),
        **members(PACKAGE / "_tracking.py"),
    }
    for name in rows("Members"):
        owner, member = name.split(".")
        wanted = theirs[owner][member]
        assert ours[owner][member][: len(wanted)] == wanted, name
    for name in rows("`rmm.mr`"):
        if "__init__" in theirs.get(name, {}):
            wanted = [a for a in theirs[name]["__init__"] if a not in ("args", "kwargs")]
            assert ours[name]["__init__"][: len(wanted)] == wanted, name


@pytest.mark.parametrize("file", ["rmm.py", "statistics.py", "_cuda/gpu.py", "allocators/cupy.py"])
def test_functions_take_the_arguments_and_defaults_of_rmm(file):
    def arguments(node):
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        names = [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
        return names, [ast.unparse(default) for default in defaults]

    def functions(path):
        return {
            node.name: arguments(node)
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        }

    theirs, ours = functions(rmm_folder() / file), functions(PACKAGE / "rmm" / file)
    assert theirs == {name: ours.get(name) for name in theirs}
