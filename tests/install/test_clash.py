"""PyPI's package `tarn` installs into the folder of this one. Tarn reports that if it still runs."""

import os
import shutil
import subprocess
import sys

import pytest

ADVICE = "run `pip uninstall tarn tarn-gpu`, then `pip install tarn-gpu`"


@pytest.fixture
def target(tmp_path, package):
    """Lay out the package as `pip install --target` does, with the command."""
    shutil.copytree(package, tmp_path / "tarn")
    (tmp_path / "bin").mkdir()
    shutil.copy(os.path.join(sys.prefix, "bin", "tarn"), tmp_path / "bin")
    (tmp_path / "tarn_gpu-0.2.0.dist-info").mkdir()
    return tmp_path


def errors_of(target, *command):
    done = subprocess.run(command, text=True, capture_output=True, cwd=target,
                          env={**os.environ, "PYTHONPATH": str(target)})  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


def import_extension(target):
    code = f"import tarn._tarn; assert tarn._tarn.__file__.startswith({str(target)!r})"
    return errors_of(target, sys.executable, "-c", code)


def test_the_package_alone_is_no_clash(target):
    assert import_extension(target) == ""
    assert errors_of(target, target / "bin/tarn", "info", "--driver", "sim") == ""


@pytest.mark.parametrize("name", ["tarn-1.3.dist-info", "tarn-0.0.1.egg-info"])
def test_another_distribution_is_named(target, name):
    (target / name).mkdir()
    said = import_extension(target)
    assert f"RuntimeWarning: {name} is another distribution" in said
    assert ADVICE.lower() in said.lower()
    said = errors_of(target, target / "bin/tarn", "info", "--driver", "sim")
    assert said.startswith(f"tarn info: warning: {name} is another Python distribution")
    assert ADVICE in said


def test_the_extension_says_so_where_the_other_package_replaced_init(target):
    (target / "tarn-1.3.dist-info").mkdir()
    (target / "tarn/__init__.py").write_text("# another project's\n")
    assert "RuntimeWarning: tarn-1.3.dist-info" in import_extension(target)
