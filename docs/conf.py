"""The site of Tarn's documentation, for Sphinx. `./check docs` builds it, with warnings as errors.

It needs Doxygen's XML of the public headers, which `tools/reference.py` writes, and an installed
Tarn for the docstrings of its Python package.
"""

import builtins
import os
import pathlib
import re
import textwrap

import tarn._frameworks
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.addnodes import desc_signature, pending_xref
from sphinx.util.docutils import SphinxDirective

ROOT = pathlib.Path(__file__).resolve().parent.parent
project = "Tarn"
author = "the Tarn developers"
copyright = "the Tarn developers"
_numbers = re.findall(
    r"#define TARN_VERSION_(?:MAJOR|MINOR|PATCH)\s+(\d+)",
    (ROOT / "include/tarn/version.h").read_text(),
)
version = release = ".".join(_numbers)

extensions = [
    "breathe",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["README.md", "images/README.md"]
nitpicky = False
suppress_warnings = ["myst.header"]

html_theme = "furo"
html_title = f"Tarn {version}"
html_static_path = ["site"]
html_css_files = ["narrow.css"]
html_copy_source = False
html_show_sphinx = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

breathe_projects = {"tarn": os.environ.get("TARN_DOXYGEN", str(ROOT / "build/doxygen/xml"))}
breathe_default_project = "tarn"
breathe_domain_by_extension = {"h": "c", "hpp": "cpp"}
breathe_show_include = False
toc_object_entries_show_parents = "hide"  # in the contents of a page: trim(), not its class

autodoc_mock_imports = [
    "click", "cuda", "cupy", "dask", "distributed", "llvmlite", "numba", "numpy", "torch", "warp",
]  # fmt: skip
# The frameworks are imitations here, without a version.
tarn._frameworks.check_version = lambda *_: None
autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    "inherited-members": "DeviceMemoryResource,BaseException,Exception,int,tuple,dict,object",
}
autodoc_typehints = "signature"
napoleon_google_docstring = False
napoleon_numpy_docstring = True
napoleon_use_ivar = True  # the fields of a named tuple have entries of their own
napoleon_use_rtype = False

intersphinx_mapping = {}  # the build needs no network

default_role = "literal"  # `name` in a docstring


class Header(SphinxDirective):
    """Shows the comment at the top of a public header: ```{header} tarn/pool.h```."""

    required_arguments = 1

    def run(self):
        """Return the nodes of the comment, whose form is that of Markdown, nearly."""
        path = ROOT / "include" / self.arguments[0]
        self.env.note_dependency(str(path))
        text = StringList(markdown_of(path.read_text()).splitlines(), source=str(path))
        node = nodes.container()
        self.state.nested_parse(text, self.content_offset, node)
        return node.children


def markdown_of(header):
    """Return the text of the first comment as Markdown: indented text that is no list is a table."""
    comment = header[: header.index("*/")].removeprefix("/*").rstrip()
    text = re.sub(r"(?m)^ \* ?", "", comment).strip().partition(" -- ")[2]
    text = text[0].upper() + text[1:]
    blocks = []
    for block in text.split("\n\n"):
        lines = block.splitlines()
        if all(line.startswith("  ") for line in lines):
            block = textwrap.dedent(block)
            if not block.startswith("- "):
                block = f"```text\n{block}\n```"
        blocks.append(block)
    return re.sub(r"docs/((?:design/)?[\w-]+)\.md", r"[](/\1.md)", "\n\n".join(blocks))


def leave_out_private_bases(app, name, obj, options, bases):
    """Remove classes whose names begin with an underscore from the list of bases."""
    bases[:] = [base for base in bases if not base.__name__.startswith("_")] or [object]


# Pages of this site whose text is in another file of the repository, for its readers there.
WRITTEN_IN = {
    "architecture": "ARCHITECTURE.md", "changelog": "CHANGELOG.md", "index": "docs/README.md",
    "security": "SECURITY.md",
}  # fmt: skip
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
# A link to a page of the site that shows a file name. Without a text it shows the title.
NAME_OF_PAGE = re.compile(r"\[[\w./-]+\.(?:md|rst)\](?=\((?!path:|[a-z]+:)[^)]+\))")


def complete_page(app, page, source):
    """Read a page that is written elsewhere, and make links that leave docs/ links to files."""
    path = ROOT / WRITTEN_IN.get(page, f"docs/{page}.md")
    if not path.exists():
        return  # not Markdown
    app.env.note_dependency(str(path))
    text = path.read_text() if page in WRITTEN_IN else source[0]
    here = (ROOT / "docs" / page).parent
    pages = {str(ROOT / name): own for own, name in WRITTEN_IN.items()}

    def link(found):
        target, anchor = found.group(1), found.group(2) or ""
        if re.match(r"[a-z]+:", target):
            return found.group(0)
        file = os.path.normpath(path.parent / target)
        if file in pages:
            return f"](/{pages[file]}.md{anchor})"
        if pathlib.Path(file).is_relative_to(ROOT / "docs"):
            return f"]({os.path.relpath(file, here)}{anchor})"
        return "]" if os.path.isdir(file) else f"](path:{os.path.relpath(file, here)})"

    if page == "index":
        text = text.partition("\n## ")[0] + "".join(map(contents, text.split("\n## ")[1:]))
    source[0] = NAME_OF_PAGE.sub("[]", LINK.sub(link, text))


def contents(shelf):
    """Return a section of the list of pages with what Sphinx needs for the sidebar."""
    title, _, table = shelf.partition("\n")
    pages = "\n".join(found.group(1) for found in LINK.finditer(table))
    return (
        f"\n\n## {title}\n{table}\n\n"
        f"```{{toctree}}\n:caption: {title}\n:hidden:\n:maxdepth: 1\n\n{pages}\n```\n"
    )


def leave_out_builtins(app, tree):
    """Make references to Python's own types text: a member of Tarn may have the name of one."""
    for node in list(tree.findall(pending_xref)):
        if node.get("refdomain") == "py" and hasattr(builtins, node.get("reftarget", "")):
            node.replace_self(node.children)


def name_unnamed_enums(app, tree):
    """Name an enum without a name in the contents of its page, where Doxygen has a number."""
    for signature in tree.findall(desc_signature):
        if signature.get("_toc_name", "").startswith("@"):
            signature["_toc_name"] = "constants"


def setup(app):
    """Add what the pages of the reference use; Sphinx calls it."""
    app.connect("source-read", complete_page)
    app.connect("doctree-read", leave_out_builtins)
    app.connect("doctree-read", name_unnamed_enums, priority=400)  # before Sphinx reads the names
    app.add_directive("header", Header)
    app.connect("autodoc-process-bases", leave_out_private_bases)
