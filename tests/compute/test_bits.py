"""Random bits mean the same for ever: they are pinned to the published generator."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rkhs.compute import uniform

_MASK = 2**64 - 1


def philox(key, counter):
    """Philox4x64-10 of Salmon et al. (2011), written from the paper."""
    k, c = list(key), list(counter)
    for _ in range(10):
        first = 0xD2E7470EE14C6C93 * c[0]
        second = 0xCA5A826395121157 * c[2]
        c = [
            (second >> 64) ^ c[1] ^ k[0],
            second & _MASK,
            (first >> 64) ^ c[3] ^ k[1],
            first & _MASK,
        ]
        k = [(k[0] + 0x9E3779B97F4A7C15) & _MASK, (k[1] + 0xBB67AE8584CAA73B) & _MASK]
    return c


def test_the_reference_generator_gives_the_published_answers():
    # Known-answer vector of Random123 for a zero key and counter.
    expected = [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]
    assert philox([0, 0], [0, 0, 0, 0]) == expected


@given(
    seed=st.integers(0, 2**31 - 1),
    stream=st.integers(0, 2000),
    index=st.integers(0, 2**40),
)
def test_uniform_is_philox_at_the_address(seed, stream, index):
    # The generator counts up before each group of four numbers.
    words = [w for low in (1, 2) for w in philox([seed, stream], [low, 0, 0, index])]
    expected = [((w >> 11) + 0.5) * 2.0**-53 for w in words]
    assert uniform(seed, stream, index, (8,)).tolist() == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ((0, 0, 0), [0.011546754286331617, 0.24154919656271817]),
        ((7, 0, 3), [0.2701962209590211, 0.876000199949309]),
        ((2**31 - 2, 1005, 0), [0.8419978567119419, 0.4630575466044225]),
    ],
)
def test_values_at_some_addresses_never_change(address, expected):
    assert uniform(*address, (2,)).tolist() == expected


def test_shape_only_arranges_the_numbers():
    flat = uniform(3, 1, 4, (12,))
    np.testing.assert_array_equal(uniform(3, 1, 4, (3, 4)), flat.reshape(3, 4))
    np.testing.assert_array_equal(uniform(3, 1, 4, (5,)), flat[:5])


def test_numbers_are_uniform():
    assert stats.kstest(uniform(11, 0, 0, (100_000,)), "uniform").pvalue > 0.01


def test_addresses_share_no_numbers():
    addresses = [(seed, stream, index) for seed in (0, 1) for stream in (0, 1) for index in (0, 1)]
    numbers = np.concatenate([uniform(*address, (1000,)) for address in addresses])
    assert len(np.unique(numbers)) == len(numbers)
