// One persistent thread pool: jobs of many small chunks, handed out one by one to whoever is awake.
#pragma once
#include <stdint.h>

#include <type_traits>

// Runs fn(ctx, i) for i in [0, chunks) on the pool and the calling thread; returns when all are done.
// Calls from inside a chunk, or while another thread owns the pool, run inline.
void pool_run(int64_t chunks, void (*fn)(void* ctx, int64_t i), void* ctx);

template <class F>
static inline void parallel_for(int64_t chunks, F&& f) {
  if (chunks <= 0) return;
  if (chunks == 1) { f(int64_t(0)); return; }
  pool_run(chunks, [](void* c, int64_t i) { (*static_cast<std::remove_reference_t<F>*>(c))(i); }, (void*)&f);
}

int pool_threads();                 // threads that take part, the caller included
int pool_default_threads();         // what the cpuset and the cgroup quota allow
int pool_set_threads(int n, int pin);  // n <= 0: default; pin 1: bind worker i to the i-th allowed CPU. Returns the count.

int64_t pool_selftest(int64_t jobs);  // chunks that did not run exactly once: 0

// Per-thread scratch that grows and is kept; 64-byte aligned. Slots 0..3 are independent buffers.
void* thread_scratch(int slot, int64_t bytes);
