from types import SimpleNamespace

import numpy as np
import pytest

from sgl_core.api.sampling import SamplingParams
from sgl_core.engine.evictions import Lru
from sgl_core.engine.messages import Generate
from sgl_core.engine.no_cache import NoCache
from sgl_core.engine.pages import PageAllocator
from sgl_core.engine.policies import ByPriority, Fcfs, Lof, Lpm, Random
from sgl_core.engine.request import Request
from sgl_core.engine.waiting import RANKED_AT_MOST, WaitingQueue


def request(seq, *, arrival=None, priority=0, limit=10, tokens=(1,)):
    return Request(
        message=Generate(rid=str(seq), input_ids=list(tokens), sampling=SamplingParams()),
        seq=seq,
        arrival=seq if arrival is None else arrival,
        max_new_tokens=limit,
        namespace=("", ""),
        prompt=np.array(tokens, dtype=np.int32),
        prompt_len=len(tokens),
        priority=priority,
    )


def order(queue):
    queue.rank(NoCache(PageAllocator(1, 1), Lru()))
    return [found.seq for found in iter(queue.pop, None)]


@pytest.mark.parametrize(
    ("policy", "sign", "expected"),
    [
        (Fcfs(), 0, [2, 1, 3]),
        (Lof(), 0, [3, 2, 1]),
        (ByPriority(), 0, [1, 2, 3]),
        (Fcfs(), -1, [1, 2, 3]),
        (Fcfs(), 1, [2, 3, 1]),
    ],
)
def test_order(policy, sign, expected):
    queue = WaitingQueue(policy, sign)
    queue.push(request(1, arrival=5.0, priority=7, limit=10))
    queue.push(request(2, arrival=1.0, priority=3, limit=20))
    queue.push(request(3, arrival=9.0, priority=3, limit=30))
    assert order(queue) == expected


def test_random_keeps_every_request_and_draws_once():
    queue = WaitingQueue(Random(seed=3))
    for seq in range(20):
        queue.push(request(seq))
    found = order(queue)
    assert sorted(found) == list(range(20))
    assert found != list(range(20))


def test_removed_requests_do_not_come_up():
    queue, gone = WaitingQueue(Fcfs()), request(1)
    queue.push(gone)
    queue.push(request(2))
    queue.remove(gone)
    assert len(queue) == 1
    assert queue.peek().seq == 2
    assert order(queue) == [2]


def test_retracted_requests_go_before_fresh_ones():
    queue, half_done = WaitingQueue(Fcfs()), request(9, arrival=9.0)
    half_done.output_ids = [1, 2]
    queue.push(request(1))
    queue.push(half_done)
    assert order(queue) == [9, 1]


def test_longest_prefix_first_and_by_arrival_in_a_long_queue():
    looked_up = []
    cache = SimpleNamespace(peek=lambda tokens, space: looked_up.append(1) or int(tokens[0]))
    queue = WaitingQueue(Lpm())
    for seq in (1, 2, 3):
        queue.push(request(seq, tokens=(seq,)))
    queue.rank(cache)
    assert [found.seq for found in iter(queue.pop, None)] == [3, 2, 1]
    for seq in range(RANKED_AT_MOST + 1):
        queue.push(request(seq, tokens=(seq,)))
    looked_up.clear()
    queue.rank(cache)
    assert queue.pop().seq == 0
    assert not looked_up


def test_the_least_important_is_the_last_of_the_lowest():
    queue = WaitingQueue(Fcfs(), -1)
    for seq, priority in ((1, 0), (2, 5), (3, 0)):
        queue.push(request(seq, priority=priority))
    assert queue.least_important().seq == 3
