import pytest

from sgl_core.config.config import Config
from sgl_core.engine.limits import UNLIMITED, EngineLimits


def test_limits_come_from_the_configuration_by_name():
    config = Config(
        {
            "chunked_prefill_size": 512,
            "max_running_requests": 7,
            "schedule_policy": "lpm",
            "radix_eviction_policy": "slru",
            "radix_eviction_policy_config": {"protected_threshold": 3},
            "enable_mixed_chunk": True,
        }
    )
    limits = EngineLimits.from_config(config)
    assert (limits.chunked_prefill_size, limits.max_running_requests, limits.enable_mixed_chunk) == (512, 7, True)
    assert limits.radix_eviction_policy_config == {"protected_threshold": 3}
    assert limits.max_queued_requests == UNLIMITED


@pytest.mark.parametrize("size", [-1, 0])
def test_a_chunk_size_below_one_means_no_chunks(size):
    assert EngineLimits.from_config(Config({"chunked_prefill_size": size})).chunked_prefill_size == UNLIMITED


@pytest.mark.parametrize("wrong", [{"retraction_policy": "oldest"}, {"stream_interval": 0}, {"max_prefill_tokens": 0}])
def test_values_without_sense_are_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        EngineLimits(**wrong)
