"""pytest imports test modules by base name: two of one name cannot be collected together.

A conftest.py apart: pytest keeps those of several folders asunder.
"""

from collections import Counter
from pathlib import Path


def test_module_names_of_the_tests_are_unique() -> None:
    names = Counter(path.name for path in Path(__file__).parent.rglob("*.py"))
    del names["conftest.py"]
    assert [name for name, times in names.items() if times > 1] == []
