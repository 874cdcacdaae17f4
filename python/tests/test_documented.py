"""What a reader finds with help(): every public name has words and a signature."""

import inspect

import pytest
import tarn


def public():
    for module in (tarn, tarn.mr, tarn.nrt):
        for name in module.__all__:
            thing = getattr(module, name)
            if callable(thing):
                yield f"{module.__name__}.{name}", thing
            if inspect.isclass(thing) and not issubclass(thing, (Exception, tuple, int)):
                for member, _function in vars(thing).items():
                    if not member.startswith("_") and callable(getattr(thing, member)):
                        yield f"{name}.{member}", getattr(thing, member)


@pytest.mark.parametrize("name, thing", list(public()))
def test_it_has_words_and_a_signature(name, thing):
    assert thing.__doc__
    if not (inspect.isclass(thing) and issubclass(thing, (Exception, tuple, int))):
        inspect.signature(thing)


def test_every_name_in_all_is_there():
    for module in (tarn, tarn.mr, tarn.nrt):
        assert set(module.__all__) <= set(dir(module))
        assert len(module.__all__) == len(set(module.__all__))
