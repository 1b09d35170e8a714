import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgl_core.engine.pages import OutOfPages, PageAllocator, PageError


def test_every_page_is_handed_out_once():
    pool = PageAllocator(5, 16)
    taken = np.concatenate((pool.alloc(2), pool.alloc(3)))
    assert sorted(taken.tolist()) == [0, 1, 2, 3, 4]
    assert (pool.free_count, pool.used_count) == (0, 5)


def test_pages_lie_in_the_order_of_their_tokens_also_when_used_again():
    pool = PageAllocator(8, 1)
    first, second = pool.alloc(3), pool.alloc(4)
    assert (first.tolist(), second.tolist()) == ([0, 1, 2], [3, 4, 5, 6])
    pool.free(second)
    assert pool.alloc(5).tolist() == [3, 4, 5, 6, 7]


def test_asking_for_too_much_takes_nothing():
    pool = PageAllocator(3, 1)
    with pytest.raises(OutOfPages, match=r"4 pages asked, 3 of 3 free"):
        pool.alloc(4)
    assert pool.free_count == 3


@pytest.mark.parametrize("wrong", [[0], [5], [-1], [9, 9], [9, 8, 9]])
def test_a_page_that_is_not_out_cannot_be_freed(wrong):
    pool = PageAllocator(10, 1)
    out = pool.alloc(2)  # 0 and 1: the stack starts at the lowest
    pool.free(out[out == 0])
    with pytest.raises(PageError):
        pool.free(np.array(wrong, dtype=np.int32))
    assert pool.used_pages().tolist() == [1]


def test_a_page_freed_twice_in_one_call_is_named():
    pool = PageAllocator(4, 1)
    pages = pool.alloc(2)
    with pytest.raises(PageError, match="twice"):
        pool.free(np.concatenate((pages, pages[:1])))
    assert pool.used_count == 2


@pytest.mark.parametrize(("pages", "size"), [(0, 1), (1, 0)])
def test_an_empty_pool_is_refused(pages, size):
    with pytest.raises(ValueError, match="at least one page"):
        PageAllocator(pages, size)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60))
def test_books_balance_under_any_use(moves):
    pool, out = PageAllocator(24, 4), list[int]()
    for take, count in moves:
        if take and count <= pool.free_count:
            out.extend(pool.alloc(count).tolist())
        elif not take:
            gone, out = out[:count], out[count:]
            pool.free(np.array(gone, dtype=np.int32))
        assert len(set(out)) == len(out)
        assert pool.used_pages().tolist() == sorted(out)
        assert pool.free_count + len(out) == 24
