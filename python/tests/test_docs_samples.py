"""The Python of guides whose samples make one program: it runs."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "page, output",
    [
        ("pool.md", "104857600 bytes, aligned to 256"),
        ("tracking.md", "1000"),
        ("writing-a-resource.md", "the largest request had 5000 bytes"),
    ],
)
def test_the_samples_of_a_page_run_one_after_the_other(sim_process, page, output):
    samples = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert output in sim_process("\n".join(samples))
