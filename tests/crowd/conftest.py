from collections.abc import Iterator
from pathlib import Path

import pytest
from local import LocalCrowd


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[LocalCrowd]:
    made = LocalCrowd(tmp_path)
    yield made
    made.close()
