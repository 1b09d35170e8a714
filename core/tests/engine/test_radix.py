import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from sgl_core.engine.evictions import Fifo, Lfu, Lru, Priority, Slru
from sgl_core.engine.pages import PageAllocator
from sgl_core.engine.radix import Node, RadixCache, common_length

PLAIN = ("", "")


class Clock:
    """Seconds that pass one by one."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


def make(pages=64, size=1, policy=None):
    return RadixCache(PageAllocator(pages, size), policy or Lru(), Clock())


def ids(*tokens):
    return np.array(tokens, dtype=np.int32)


def put(cache, tokens, namespace=PLAIN, priority=0):
    """Compute and insert a sequence as a request would; the node it ends in, unlocked."""
    size = cache._page
    tokens = ids(*tokens)[: len(tokens) - len(tokens) % size]
    match = cache.match(tokens, namespace, len(tokens))
    cache.lock(match.node)
    pages = cache._allocator.alloc((len(tokens) - match.length) // size)
    done = cache.insert(match.node, tokens[match.length :], pages, priority)
    cache.unlock(match.node)
    return done.node


def test_common_length():
    assert common_length(ids(), ids(1)) == 0
    assert common_length(ids(1, 2, 3), ids(1, 2)) == 2
    assert common_length(ids(1, 2, 3), ids(1, 9, 3)) == 1


def test_a_match_gives_the_pages_in_order():
    cache = make()
    put(cache, [1, 2, 3, 4])
    whole = cache.match(ids(1, 2, 3, 4), PLAIN, 4).pages.tolist()
    part = cache.match(ids(1, 2, 9), PLAIN, 3)
    assert part.length == 2
    assert part.pages.tolist() == whole[:2]
    assert cache.match(ids(1, 2, 3, 4, 5), PLAIN, 5).pages.tolist() == whole
    assert cache.match(ids(7), PLAIN, 1).length == 0


def test_the_limit_holds_in_whole_pages():
    cache = make(size=4)
    put(cache, range(12))
    assert [cache.match(ids(*range(12)), PLAIN, limit).length for limit in (3, 4, 7, 11, 12)] == [0, 4, 4, 8, 12]


def test_sequences_that_part_inside_a_page_share_only_whole_pages():
    cache = make(size=4)
    put(cache, [1, 2, 3, 4, 5, 6, 7, 8])
    put(cache, [1, 2, 3, 4, 5, 6, 0, 0])
    assert cache.cached == 3
    assert cache.peek(ids(1, 2, 3, 4, 5, 6, 7, 9), PLAIN) == 4


def test_peek_agrees_with_match_and_changes_nothing():
    cache = make()
    put(cache, [1, 2, 3])
    before = [(n.end, n.last_access, n.hits) for n in cache.nodes()]
    assert cache.peek(ids(1, 2, 8), PLAIN) == 2
    assert cache.peek(ids(1), ("adapter", "")) == 0
    assert [(n.end, n.last_access, n.hits) for n in cache.nodes()] == before


def test_pages_the_cache_has_already_are_freed_not_kept_twice():
    cache = make(pages=10)
    root = cache.root(PLAIN)
    cache.lock(root)
    first = cache.insert(root, ids(1, 2, 3), cache._allocator.alloc(3))
    again = cache.insert(root, ids(1, 2, 3, 4), cache._allocator.alloc(4))
    assert again.pages.tolist()[:3] == first.pages.tolist()
    assert cache.cached == 4
    assert cache._allocator.free_count == 6


def test_namespaces_never_share():
    cache = make()
    for space in (PLAIN, ("adapter", ""), ("", "salt"), ("adapter", "salt")):
        assert cache.match(ids(1, 2), space, 2).length == 0
        put(cache, [1, 2], space)
    assert cache.cached == 8


def test_an_unused_namespace_leaves_nothing_behind():
    cache = make()
    for number in range(30):
        put(cache, [1, 2], ("", str(number)))
    assert cache.evict(100) == 60
    assert cache._roots == {}


def test_a_locked_path_survives_any_eviction():
    cache = make()
    kept, lost = put(cache, [1, 2, 3]), put(cache, [1, 2, 9, 9])
    cache.lock(kept)
    assert cache.evictable == 2
    assert cache.evict(100) == 2
    assert cache.peek(ids(1, 2, 3), PLAIN) == 3
    assert lost not in list(cache.nodes())
    cache.unlock(kept)
    assert cache.evict(100) == 3
    assert cache.cached == cache.evictable == 0


def test_a_split_keeps_the_locks_of_what_lies_below():
    cache = make()
    deep = put(cache, [1, 2, 3, 4])
    cache.lock(deep)
    upper = cache.match(ids(1, 2), PLAIN, 2).node
    assert (upper.locks, upper.end, deep.end) == (1, 2, 4)
    cache.unlock(deep)
    assert cache.evictable == 4


def test_a_leaf_loses_its_tail_first():
    cache = make(size=2)
    put(cache, range(10))
    assert cache.evict(2) == 2
    assert cache.peek(ids(*range(10)), PLAIN) == 6


def test_unlocking_too_often_is_an_error():
    cache = make()
    node = put(cache, [1])
    with pytest.raises(RuntimeError, match="more often"):
        cache.unlock(node)


def test_tokens_that_do_not_fill_the_pages_are_refused():
    cache = make(size=4)
    with pytest.raises(ValueError, match="3 tokens do not fill 1 pages of 4"):
        cache.insert(cache.root(PLAIN), ids(1, 2, 3), cache._allocator.alloc(1))


def test_reset_waits_for_locks():
    cache = make()
    node = put(cache, [1, 2])
    cache.lock(node)
    with pytest.raises(RuntimeError, match="in use"):
        cache.reset()
    cache.unlock(node)
    cache.reset()
    assert cache._allocator.free_count == 64
    assert cache.peek(ids(1, 2), PLAIN) == 0


def use(cache, *tokens):
    node = cache.match(ids(*tokens), PLAIN, len(tokens)).node
    cache.lock(node)
    cache.hit(node)
    cache.unlock(node)


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        (Lru(), [2, 3, 1]),
        (Lfu(), [3, 2, 1]),
        (Slru(), [3, 2, 1]),
        (Slru(protected_threshold=9), [2, 3, 1]),
        (Fifo(), [1, 2, 3]),
        (Priority(), [2, 1, 3]),
    ],
)
def test_policies_decide_who_goes_first(policy, order):
    cache = make(policy=policy)
    for token, priority in ((1, 5), (2, 0), (3, 9)):
        put(cache, [token], priority=priority)
    use(cache, 2)
    use(cache, 2)
    use(cache, 3)
    use(cache, 1)
    use(cache, 1)
    use(cache, 1)
    gone = []
    while cache.cached:
        left = {token for token in (1, 2, 3) if cache.peek(ids(token), PLAIN)}
        cache.evict(1)
        gone += [token for token in left if not cache.peek(ids(token), PLAIN)]
    assert gone == order


def test_stale_heap_entries_do_not_pile_up():
    cache = make(pages=8)
    node = put(cache, [1, 2])
    for _ in range(1000):
        cache.lock(node)
        cache.unlock(node)
    assert len(cache._heap) < 100


class Books(RuleBasedStateMachine):
    """Requests match, lock, insert, unlock and evict in any order; a plain dict says what must be found."""

    locked = Bundle("locked")

    def __init__(self):
        super().__init__()
        self.size = 2
        self.pool = PageAllocator(48, self.size)
        self.cache = RadixCache(self.pool, Lru(), Clock())
        self.held: dict[int, int] = {}

    @rule(
        target=locked,
        tokens=st.lists(st.integers(0, 2), min_size=1, max_size=14),
        space=st.sampled_from([PLAIN, ("a", "")]),
    )
    def serve(self, tokens, space):
        tokens = ids(*tokens)[: len(tokens) - len(tokens) % self.size]
        peeked = self.cache.peek(tokens, space)
        match = self.cache.match(tokens, space, len(tokens))
        assert peeked == match.length == len(match.pages) * self.size
        self.cache.lock(match.node)
        need = (len(tokens) - match.length) // self.size
        if need > self.pool.free_count:
            self.cache.evict(need - self.pool.free_count)
        if need > self.pool.free_count:
            return match.node
        done = self.cache.insert(match.node, tokens[match.length :], self.pool.alloc(need))
        self.cache.lock(done.node)
        self.cache.unlock(match.node)
        assert done.node.end == len(tokens)
        assert self.cache.peek(tokens, space) == len(tokens)
        return done.node

    @rule(node=consumes(locked))
    def leave(self, node):
        self.cache.unlock(node)

    @rule(node=locked, count=st.integers(1, 20))
    def evict(self, node, count):
        before = self.cache.evictable
        assert self.cache.evict(count) == min(count, before)
        walk = node
        while walk.parent is not None:
            assert walk.parent.children[walk.key] is walk, "a locked node was evicted"
            walk = walk.parent

    @invariant()
    def books_balance(self):
        nodes = list(self.cache.nodes())
        pages = [page for node in nodes for page in node.pages.tolist()]
        assert len(set(pages)) == len(pages)
        assert sorted(pages) == self.pool.used_pages().tolist()
        assert self.cache.cached == len(pages)
        assert self.cache.evictable == sum(len(node.pages) for node in nodes if not node.locks)
        for node in nodes:
            assert len(node.tokens) == len(node.pages) * self.size > 0
            assert node.end == node.parent.end + len(node.tokens)
            assert node.locks >= sum(child.locks for child in node.children.values())
            firsts = [child.tokens[: self.size].tobytes() for child in node.children.values()]
            assert firsts == list(node.children)
            assert isinstance(node, Node)


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
