"""The table of bad objects on a real API server: refused by field and mend, whoever refuses."""

from __future__ import annotations

import copy

import pytest

from kai_ray.cluster.port import ApiError
from tests.admission import bad_fields
from tests.real.chart.release import Release

pytestmark = pytest.mark.real


@pytest.mark.parametrize("bad", bad_fields.ALL, ids=lambda bad: bad.name)
def test_it_is_refused_by_field_and_mend(release: Release, bad: bad_fields.Bad) -> None:
    with pytest.raises(ApiError) as caught:
        release.plane.port.create(bad.resource, copy.deepcopy(bad.obj), dry_run=True)
    assert bad.field in caught.value.message
    for word in bad.words:
        assert word in caught.value.message
