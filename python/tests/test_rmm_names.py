"""docs/rmm-names.md against the installed RMM: all names are listed, and all listed names exist.

RMM is read with ast, not imported: importing it needs a driver.
"""

import ast
import importlib.util
import re
from pathlib import Path

import pytest
import tarn

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "rmm-names.md"


def rmm_folder():
    spec = importlib.util.find_spec("rmm")
    if spec is None:
        pytest.skip("rmm is not installed (./check installs it)")
    return Path(spec.origin).parent


def names_in_all(path):
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return set(ast.literal_eval(node.value))
    raise AssertionError(f"{path} has no __all__")


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


def rows(heading):
    """Return {name: (word, note)} of the table under a heading."""
    section = TABLE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| `([^`]+)` \| (\w+) \| ?(.*?) ?\|$", section, re.M)
    return {name: (word, note) for name, word, note in found}


def test_the_table_has_every_name_of_rmm_and_no_other():
    folder = rmm_folder()
    assert set(rows("`rmm`")) == names_in_all(folder / "__init__.py")
    assert set(rows("`rmm.mr`")) == names_in_all(folder / "mr" / "__init__.py")


@pytest.mark.parametrize(
    "heading, module", [("`rmm`", tarn), ("`rmm.mr`", tarn.mr), ("Members", None)]
)
def test_what_the_table_says_is_there_is_there(heading, module):
    for name, (word, _) in rows(heading).items():
        place, attribute = module, name
        if module is None:
            owner, attribute = name.split(".")
            place = tarn.DeviceBuffer if owner == "DeviceBuffer" else getattr(tarn.mr, owner)
        assert word in ("same", "different", "absent")
        assert hasattr(place, attribute) == (word != "absent"), name


def test_the_table_has_every_member_of_the_classes_that_are_there():
    folder = rmm_folder() / "pylibrmm"
    ours = {name.split(".")[0] for name in rows("Members")}
    theirs = {
        **members(folder / "device_buffer.pyi"),
        **members(folder / "memory_resource" / "_memory_resource.pyi"),
    }
    listed = {
        f"{owner}.{member}"
        for owner in ours
        for member in theirs[owner]
        if not member.startswith("_")
    }
    assert set(rows("Members")) == listed


def test_members_that_are_there_take_the_arguments_of_rmm():
    theirs = members(rmm_folder() / "pylibrmm" / "device_buffer.pyi")
    theirs.update(members(rmm_folder() / "pylibrmm" / "memory_resource" / "_memory_resource.pyi"))
    package = Path(tarn.__file__).parent
    ours = {**members(package / "_tarn.pyi"), **members(package / "mr.py", inherited=True)}
    for name, (word, _) in rows("Members").items():
        owner, member = name.split(".")
        if word != "absent":
            wanted = theirs[owner][member]
            assert ours[owner][member][: len(wanted)] == wanted, name
    for name, (word, _) in rows("`rmm.mr`").items():
        if word != "absent" and "__init__" in theirs.get(name, {}):
            wanted = [a for a in theirs[name]["__init__"] if a not in ("args", "kwargs")]
            assert ours[name]["__init__"][: len(wanted)] == wanted, name


def test_what_is_beside_them_is_there():
    for name, (word, note) in rows("Beside them").items():
        if word != "absent":
            assert note.startswith("`tarn."), name
            ours = note.split("`")[1].removeprefix("tarn.")
            assert hasattr(tarn, ours) or importlib.util.find_spec(f"tarn.{ours}"), name
