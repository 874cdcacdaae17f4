"""Fixtures of the tests of report pages: a browser, and pages that are opened in it.

A page that says anything on its console, requests anything but itself or breaks its own
content-security policy fails its test.
"""

from __future__ import annotations

import functools
import shutil

import logs
import page as pages
import pytest
from playwright.sync_api import sync_playwright

PAGES = {
    "training": lambda: [logs.training()],
    "fragmented": lambda: [logs.fragmented()],
    "planned": lambda: [logs.planned()],
    "workers": logs.workers,
    "compare": logs.before_and_after,
    "empty": lambda: [logs.empty()],
    "one row": lambda: [logs.one_row()],
    "failures": lambda: [logs.failures_only()],
    "no stacks": lambda: [logs.without_stacks()],
    "midnight": lambda: [logs.from_midnight()],
    "hostile": lambda: [logs.hostile()],
    "many sites": lambda: [logs.many_sites()],
}
VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
    window.violations.push(event.violatedDirective + " " + event.blockedURI));
"""


@functools.cache
def blocks(name):
    """The blocks of a page."""
    return PAGES[name]()


class Opened:
    """A page in a browser, and what it said."""

    def __init__(self, browser, path, **options):
        options.setdefault("viewport", {"width": 1440, "height": 900})
        self.context = browser.new_context(**options)
        self.tab = self.context.new_page()
        self.said, self.requests = [], []
        self.tab.on("console", lambda message: self.said.append(message.text))
        self.tab.on("pageerror", lambda error: self.said.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        if options.get("java_script_enabled", True):
            self.tab.add_init_script(VIOLATIONS)
        self.tab.goto(path.as_uri())

    def settle(self):
        """Wait until requested drawings are done."""
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def js(self, expression):
        return self.tab.evaluate(expression)

    def reset(self, fragment="#"):
        self.js(f"location.hash = {fragment!r}")
        self.js("document.querySelectorAll('dialog[open]').forEach(each => each.close())")
        self.js("document.activeElement.blur()")
        self.tab.mouse.move(1, 1)
        self.settle()

    def press(self, *keys):
        for key in keys:
            self.tab.keyboard.press(key)
        self.settle()

    def click(self, selector, **options):
        self.tab.click(selector, **options)
        self.settle()

    def state(self, key):
        return self.js(f"state[{key!r}]")

    def text(self, selector):
        return self.tab.locator(selector).inner_text()

    def bytes(self, selector):
        return [int(float(each)) for each in self.tab.locator(selector).evaluate_all(
            "elements => elements.map(each => each.dataset.bytes)")]  # fmt: skip

    def check(self):
        assert self.said == []
        assert len(self.requests) == 1, self.requests
        assert self.js("window.violations") == []

    def close(self):
        self.context.close()


@pytest.fixture(scope="session")
def browser():
    found = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    assert found, "no Chromium; tools/setup.sh installs it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """Write the page of a name, once."""
    folder = tmp_path_factory.mktemp("pages")

    @functools.cache
    def write(name):
        path = folder / f"{name.replace(' ', '-')}.html"
        path.write_text(pages.page(blocks(name), name == "compare"))
        return path

    return write


@pytest.fixture(scope="module")
def opened(browser, written):
    """Open the page of a name, once a module."""
    tabs = {}

    def get(name):
        if name not in tabs:
            tabs[name] = Opened(browser, written(name))
        tabs[name].reset()
        return tabs[name]

    get.tabs = tabs
    yield get
    for tab in tabs.values():
        tab.close()


@pytest.fixture(autouse=True)
def silent(request):
    """No test leaves a message on the console of a page."""
    yield
    if "opened" in request.fixturenames:
        for tab in request.getfixturevalue("opened").tabs.values():
            tab.check()


@pytest.fixture
def other(browser, tmp_path):
    """Open a text as a page of its own, with options of a context."""
    tabs = []

    def get(source, **options):
        if isinstance(source, str):
            path = tmp_path / f"{len(tabs)}.html"
            path.write_text(source)
            source = path
        tabs.append(Opened(browser, source, **options))
        return tabs[-1]

    yield get
    for tab in tabs:
        tab.close()
