"""Any text as the name of a resource, as TARN_RESOURCE has it: a resource, or an error in words."""

import hypothesis
import pytest
import tarn
from hypothesis import strategies as st
from tarn import _resources, mr

WORDS = (
    *_resources._classes(),
    *_resources.POOL_OPTIONS,
    *(":", ",", "=", "2MiB", "0", "-1", "1e400", "nan", "1e30GiB", "tight", "default", "never"),
    *("event", "single-stream", "synchronize", " ", "4 kb", "MiB", "0x10", "1_0", ".5MiB", "-0.4"),
)
words = st.sampled_from(WORDS)
options = st.dictionaries(st.sampled_from(_resources.POOL_OPTIONS), words, max_size=3)
texts = st.one_of(
    st.text(max_size=20),
    st.lists(words, max_size=9).map("".join),
    st.builds(
        lambda name, chosen: f"{name}:{','.join(f'{key}={chosen[key]}' for key in chosen)}",
        st.sampled_from(_resources.POOLS),
        options,
    ),
)


@hypothesis.settings(max_examples=400, derandomize=True, database=None, deadline=None)
@hypothesis.given(texts)
def test_any_text_names_a_resource_or_is_an_error_in_words(text):
    try:
        made = _resources._class_of(text)(device=0)
    except (ValueError, tarn.OutOfMemoryError) as error:
        assert len(str(error)) > 20
        return
    assert isinstance(made, mr.DeviceMemoryResource)


@pytest.mark.parametrize("size", ["-1", "-0.4", "-2MiB", "1e30GiB", "9223372036854775808"])
def test_a_size_out_of_range_is_an_error_with_the_text(size):
    with pytest.raises(ValueError, match=f"^{size!r} as a number of bytes is not between"):
        mr.PoolMemoryResource(growth=size)
