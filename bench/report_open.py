"""Measures how long Chromium takes to open pages of `tarn report`; it needs Playwright.

    bench/report_open.py PAGE...

The times are milliseconds since the navigation began: first content, load, and when two frames
were drawn after that. The last one is the processor time of the page's main thread until then,
which a busy machine changes little. Each is the least and the median of five. Each page opens at
full speed and with a processor that is 4 times slower; its pauses count as processor time.
"""

import os
import shutil
import statistics
import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

TIMES = """() => ({
    "first content": performance.getEntriesByName("first-contentful-paint")[0].startTime,
    load: performance.getEntriesByType("navigation")[0].loadEventEnd,
})"""
PAINTED = """() => performance.getEntriesByName("first-contentful-paint").length > 0"""
FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def processor_time(session):
    """The milliseconds that the main thread of a tab has run."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    (seconds,) = [one["value"] for one in metrics if one["name"] == "TaskDuration"]
    return seconds * 1000


def opened(browser, page, rate):
    """The times of a page whose processor is `rate` times slower."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    tab = context.new_page()
    session = context.new_cdp_session(tab)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    session.send("Emulation.setCPUThrottlingRate", {"rate": rate})
    before, begin = processor_time(session), time.monotonic()
    tab.goto(page.resolve().as_uri())
    tab.evaluate(FRAMES)
    drawn = (time.monotonic() - begin) * 1000
    processor = processor_time(session) - before
    tab.wait_for_function(PAINTED)  # the entry may come after the frame
    times = tab.evaluate(TIMES) | {"drawn": drawn, "processor": processor}
    context.close()
    return times


def main():
    found = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for page in map(Path, sys.argv[1:]):
            for rate in 1, 4:
                load = os.getloadavg()[0]
                runs = [opened(browser, page, rate) for _ in range(5)]
                print(f"{page.name} x{rate}, load {load:.1f}:", end="")
                for name in runs[0]:
                    times = [run[name] for run in runs]
                    print(f" {name} {min(times):.0f} ({statistics.median(times):.0f})", end="")
                print(flush=True)
        browser.close()


if __name__ == "__main__":
    main()
