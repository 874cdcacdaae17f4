"""Makes the pictures of docs/leaks.md, docs/out-of-memory.md and docs/libraries.md.

    .venv/bin/python tools/pictures.py                      run, then draw into docs/images
    .venv/bin/python tools/pictures.py run FOLDER           logs and reports of the pages' programs
    .venv/bin/python tools/pictures.py draw FOLDER IMAGES   pictures of these reports; needs chromium

The programs are those of the pages. On the driver simulator (TARN_DRIVER=sim) the device has 40 GiB
and no kernel is launched (tools/without_kernels). TARN_PICTURES_TORCH names a Python with PyTorch
and the other frameworks. There PyTorch needs TARN_TORCH_CUDART, the library of
python/tests/torch_cudart.c. Without TARN_PICTURES_TORCH the programs with PyTorch are left out.
tests/gpu/stories.sh runs the programs on a GPU.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
WIDTH = 1200


@dataclasses.dataclass(frozen=True)
class Story:
    """A program of a page, and the pictures of its report."""

    page: str
    program: str
    options: tuple[str, ...] = ()
    needs_torch: bool = False
    fails: bool = False
    pictures: tuple[tuple[str, str, str, int], ...] = ()  # image, fragment, first element, height


STORIES = (
    Story("leaks.md", "leak.py", pictures=(("leak", "", "body", 860),)),
    Story(
        "out-of-memory.md",
        "mosaic.py",
        fails=True,
        pictures=(("mosaic", "", "body", 720), ("mosaic-map", "#m=1", "#tarn-map", 520)),
    ),
    Story(
        "out-of-memory.md",
        "search.py",
        ("--use", "numba"),
        needs_torch=True,
        fails=True,
        pictures=(("search", "", "body", 930),),
    ),
    Story(
        "libraries.md",
        "pipeline.py",
        needs_torch=True,
        pictures=(("libraries", "#by=framework", "body", 640),),
    ),
)


def programs(page):
    """Return the programs of a page, by the names in their first lines."""
    found = re.findall(r"```python\n# (\S+\.py)\n(.*?)```", (DOCS / page).read_text(), re.S)
    return {name: f"# {name}\n{code}" for name, code in found}


def environment(driver):
    """Return the environment of a program."""
    settings = dict(os.environ)
    if driver != "sim":
        return settings
    settings.setdefault("TARN_SIM", "memory=40GiB")
    settings["PYTHONPATH"] = str(ROOT / "tools/without_kernels")
    if "TARN_TORCH_CUDART" in settings:
        settings["LD_PRELOAD"] = settings["TARN_TORCH_CUDART"]
    return settings


def run(story, folder, python):
    """Run the program of a story; its log and its report go into the folder."""
    tarn = os.environ.get("TARN_TOOL") or str(pathlib.Path(sys.executable).parent / "tarn")
    driver = os.environ.get("TARN_DRIVER", "")
    for name, code in programs(story.page).items():
        (folder / name).write_text(code)
    name = story.program.removesuffix(".py")
    options = ["--driver", "sim"] if driver == "sim" else []
    command = [tarn, "run", *options, *story.options, "--log", f"{name}.tlog", "--stacks", "32"]
    done = subprocess.run(
        [*command, python, story.program], cwd=folder, env=environment(driver), text=True,
        capture_output=True,
    )  # fmt: skip
    if (done.returncode != 0) != story.fails or (story.fails and "emory" not in done.stderr):
        raise SystemExit(f"{story.program}: exit code {done.returncode}\n{done.stderr}")
    subprocess.run([tarn, "report", f"{name}.tlog", "-o", f"{name}.html"], cwd=folder, check=True)
    print(f"{name}.html: {done.stderr.strip().splitlines()[-1:] or 'no error'}")


def run_all(folder):
    """Run all programs that this machine can run."""
    with_torch = os.environ.get("TARN_PICTURES_TORCH")
    for story in STORIES:
        if story.needs_torch and not with_torch:
            print(f"{story.program} is left out: TARN_PICTURES_TORCH is not set")
            continue
        run(story, folder, with_torch if story.needs_torch else sys.executable)


def draw(folder, images):
    """Draw the pictures of the reports in a folder."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for story in STORIES:
            report = folder / story.program.replace(".py", ".html")
            for image, fragment, first, height in story.pictures if report.exists() else ():
                tab = browser.new_page(viewport={"width": WIDTH, "height": height})
                tab.goto(report.resolve().as_uri() + fragment)
                tab.wait_for_timeout(300)
                top = tab.locator(first).bounding_box()["y"] if first != "body" else 0
                clip = {"x": 0, "y": top, "width": WIDTH, "height": height}
                path = images / f"{image}.png"
                tab.screenshot(path=path, full_page=True, clip=clip)
                print(f"{path}: {path.stat().st_size // 1000} kB")
                tab.close()
        browser.close()


def main():
    """Run the programs, draw the pictures, or both."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("step", nargs="?", choices=("all", "run", "draw"), default="all")
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("images", nargs="?", type=pathlib.Path, default=DOCS / "images")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = given.folder or pathlib.Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        if given.step != "draw":
            run_all(folder)
        if given.step != "run":
            draw(folder, given.images)


if __name__ == "__main__":
    main()
