"""Checks that the messages for users use the terms of docs/glossary.md.

Holds the string literals that a user can see against tests/support/private_words.h: those with
a space in src/, sim/ and cli/, the messages of exceptions in python/ext, and all but docstrings in
python/tarn.
"""

import ast
import pathlib
import re
import unittest

PROJECT = pathlib.Path(__file__).parents[2]
WORDS = PROJECT / "tests/support/private_words.h"
TOKEN = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", re.DOTALL)
BETWEEN = re.compile(r"(?:\s|\\\n|PRI\w+|/\*.*?\*/)*", re.DOTALL)
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include.*$", re.MULTILINE)
# The calls in python/ext that take a message. Its other literals are docstrings and names.
MESSAGE = re.compile(
    r"\b(?:PyErr_\w+|tarn_error_set\w*|tarn__warn|PyUnicode_FromFormat|refuse\w*)\("
)


def private_words():
    """Return the list in the header that the C test reads as well."""
    entries = WORDS.read_text().partition("private_words[] = {")[2].partition("};")[0]
    return re.findall(r'"([^"]+)"', entries)


def pattern_of(words):
    """Return a pattern that matches one of these as whole words, unless " of" follows."""
    entries = "|".join(re.escape(word) for word in words)
    return re.compile(rf"(?<![A-Za-z0-9_])(?:{entries})(?![A-Za-z0-9_])(?! of\b)", re.IGNORECASE)


def c_literals(text):
    """Yield (offset, text) of each string literal of C, with adjacent ones joined and without
    includes."""
    text = INCLUDE.sub(lambda match: " " * len(match[0]), text)
    start = end = None
    joined = ""
    for token in TOKEN.finditer(text):
        if token[0][0] != '"':
            continue
        if start is not None and BETWEEN.fullmatch(text, end, token.start()):
            joined += token[0][1:-1]
        else:
            if start is not None:
                yield start, joined
            start, joined = token.start(), token[0][1:-1]
        end = token.end()
    if start is not None:
        yield start, joined


def call_at(text, opening):
    """Return the offset behind the parenthesis that closes the one at `opening`."""
    depth = 0
    for token in re.finditer(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|[()]', text[opening:]):
        depth += (token[0] == "(") - (token[0] == ")")
        if depth == 0:
            return opening + token.end()
    return len(text)


def in_messages(text):
    """Yield the literals of C that are arguments of MESSAGE."""
    spans = [(call.start(), call_at(text, call.end() - 1)) for call in MESSAGE.finditer(text)]
    for offset, literal in c_literals(text):
        if any(start <= offset < end for start, end in spans):
            yield offset, literal


def python_literals(text):
    """Yield (line, text) of each string of Python that is no docstring."""
    tree = ast.parse(text)
    docs = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            docs.add(body[0].value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docs:
            yield node.lineno, node.value


def literals(path, text):
    """Yield (line, text) of each literal of a file that a user may read."""
    if path.suffix == ".py":
        yield from python_literals(text)
        return
    found = in_messages(text) if "python" in path.parts else c_literals(text)
    for offset, literal in found:
        yield text.count("\n", 0, offset) + 1, literal


def files():
    for folder, endings in (
        ("src", (".c", ".h")),
        ("sim", (".c", ".h")),
        ("cli", (".c", ".h")),
        ("python/ext", (".c", ".h")),
        ("python/tarn", (".py",)),
    ):
        for path in sorted((PROJECT / folder).rglob("*")):
            if path.suffix in endings:
                yield path


class Messages(unittest.TestCase):
    def test_no_message_has_a_private_word(self):
        words, wrong, seen = pattern_of(private_words()), [], 0
        for path in files():
            name = path.relative_to(PROJECT)
            for line, literal in literals(name, path.read_text()):
                if " " not in literal:
                    continue
                seen += 1
                if found := words.search(literal):
                    wrong.append(f"{name}:{line}: {found[0]!r} in {literal!r}")
        self.assertEqual(wrong, [])
        self.assertGreater(seen, 500)

    def test_the_list_is_read(self):
        words = private_words()
        self.assertGreater(len(words), 40)
        self.assertIn("stand-in", words)
        self.assertEqual(len(words), len(set(words)))

    def test_words_are_whole_and_out_of_is_none(self):
        pattern = pattern_of(["lane", "is out", "room"])
        for text in ("a lane", "Lane 3", "0x10 is out", "(room)"):
            self.assertTrue(pattern.search(text), text)
        for text in ("plane", "lanes", "is out of memory", "fence_lane", "roomy"):
            self.assertFalse(pattern.search(text), text)

    def test_adjacent_literals_are_one(self):
        text = '/* "no" */ f("a lane" /* x */\n  "s", \'"\', "b" PRIu64 "c");\n#include "d e"\n'
        self.assertEqual([found for _, found in c_literals(text)], ["a lanes", "bc"])

    def test_docstrings_are_no_messages(self):
        text = 'PyDoc_STRVAR(doc, "a doc");\nPyErr_Format(E, "a (%d)", f(")"));\n"after";\n'
        self.assertEqual([found for _, found in in_messages(text)], ["a (%d)", ")"])
        text = '"""doc"""\ndef f():\n    """doc"""\n    return "text"\n'
        self.assertEqual([found for _, found in python_literals(text)], ["text"])


if __name__ == "__main__":
    unittest.main()
