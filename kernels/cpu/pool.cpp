// The pool's inside. A job is (epoch, fn, ctx, chunks). One 64-bit ticket word holds epoch << 32 | next chunk; a thread owns
// a chunk when its compare-and-swap of the ticket succeeds. The caller waits for chunks, never for workers: a preempted or
// sleeping worker costs at most the chunk it holds.
//
// Why a worker that wakes late does no harm: it reads the ticket, then the job's fields, then swaps. Before the fields of a
// new job are written the ticket is closed (a chunk number beyond any count); fields are published with release and read with
// acquire. So whoever has read a new field finds a changed ticket, and its swap of the old one fails.
#include "pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

void futex_wait(std::atomic<uint32_t>* a, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(a), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>* a, int n) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(a), FUTEX_WAKE_PRIVATE, n, nullptr, nullptr, 0);
}

// Workers look for the next job this long before they sleep: longer than the gap between two ops of a step (1-20 us),
// far shorter than a scheduler tick, so that a busy neighbour gets the core instead of a spinning loop.
constexpr int64_t kSpinNs = 60000;
// The caller waits this long for chunks held by others before it sleeps too.
constexpr int64_t kCallerSpinNs = 60000;

struct alignas(64) Line32 { std::atomic<uint32_t> v{0}; };
struct alignas(64) Line64 { std::atomic<uint64_t> v{0}; };

struct Pool {
  Line64 ticket;                       // epoch << 32 | next chunk
  alignas(64) std::atomic<void (*)(void*, int64_t)> fn{nullptr};
  std::atomic<void*> ctx{nullptr};
  std::atomic<uint32_t> chunks{0};
  Line32 done;                         // chunks finished of the current job
  Line32 wake;                         // futex word: bumped with each job
  std::atomic<uint32_t> sleepers{0};
  Line32 caller_sleeps;
  std::atomic<bool> stop{false};
  std::mutex owner;                    // one caller at a time
  std::vector<std::thread> workers;
  int threads = 0;
  int64_t spin_ns = kSpinNs;
};

Pool* g_pool = nullptr;        // made on first use, never destroyed (workers may outlive static destructors)
std::mutex g_make;
thread_local bool t_inside = false;

// Takes chunks of job `epoch` until none is left.
void work(Pool& p, uint32_t epoch) {
  for (;;) {
    uint64_t t = p.ticket.v.load(std::memory_order_acquire);
    if (uint32_t(t >> 32) != epoch) return;
    auto fn = p.fn.load(std::memory_order_acquire);
    void* ctx = p.ctx.load(std::memory_order_acquire);
    const uint32_t n = p.chunks.load(std::memory_order_acquire);
    if (uint32_t(t) >= n) return;
    if (!p.ticket.v.compare_exchange_weak(t, t + 1, std::memory_order_acq_rel)) continue;
    fn(ctx, int64_t(uint32_t(t)));
    if (p.done.v.fetch_add(1, std::memory_order_seq_cst) + 1 == n && p.caller_sleeps.v.load(std::memory_order_seq_cst)) {
      p.caller_sleeps.v.store(0, std::memory_order_seq_cst);
      futex_wake(&p.caller_sleeps.v, 1);
    }
  }
}

void worker_main(Pool* pool) {
  Pool& p = *pool;
  t_inside = true;
  uint32_t seen = p.wake.v.load(std::memory_order_acquire);
  for (;;) {
    int64_t start = 0;
    for (int spins = 0;; spins++) {
      if (p.wake.v.load(std::memory_order_acquire) != seen || p.stop.load(std::memory_order_relaxed)) break;
      relax();
      if ((spins & 63) == 63) {
        const int64_t t = now_ns();
        if (!start) start = t;
        if (t - start > p.spin_ns) {
          p.sleepers.fetch_add(1, std::memory_order_seq_cst);
          futex_wait(&p.wake.v, seen);
          p.sleepers.fetch_sub(1, std::memory_order_seq_cst);
          start = 0;
        }
      }
    }
    if (p.stop.load(std::memory_order_acquire)) return;
    seen = p.wake.v.load(std::memory_order_acquire);
    work(p, uint32_t(p.ticket.v.load(std::memory_order_acquire) >> 32));
  }
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; i++)
      if (CPU_ISSET(i, &set)) cpus.push_back(i);
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

// CPUs granted by the cgroup quota (v2 cpu.max, v1 cfs), rounded up; 0 when there is none.
int quota_cpus() {
  double best = 0;
  char path[512] = "", line[512];
  if (FILE* f = fopen("/proc/self/cgroup", "r")) {
    while (fgets(line, sizeof line, f))
      if (!strncmp(line, "0::", 3)) { snprintf(path, sizeof path, "%s", line + 3); path[strcspn(path, "\n")] = 0; }
    fclose(f);
  }
  // The quota of any ancestor binds, so walk up to the root.
  for (;;) {
    char file[600];
    snprintf(file, sizeof file, "/sys/fs/cgroup%s/cpu.max", path);
    if (FILE* f = fopen(file, "r")) {
      long quota, period;
      if (fscanf(f, "%ld %ld", &quota, &period) == 2 && period > 0) {
        const double c = double(quota) / double(period);
        if (best == 0 || c < best) best = c;
      }
      fclose(f);
    }
    char* slash = strrchr(path, '/');
    if (!slash) break;
    *slash = 0;
  }
  long q = -1, per = 0;
  if (FILE* f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "r")) { if (fscanf(f, "%ld", &q) != 1) q = -1; fclose(f); }
  if (FILE* f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "r")) { if (fscanf(f, "%ld", &per) != 1) per = 0; fclose(f); }
  if (q > 0 && per > 0 && (best == 0 || double(q) / per < best)) best = double(q) / per;
  const int whole = int(best);
  return best > whole ? whole + 1 : whole;
}

void stop_workers(Pool& p) {
  p.stop.store(true, std::memory_order_release);
  p.wake.v.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(&p.wake.v, 1 << 30);
  for (auto& t : p.workers) t.join();
  p.workers.clear();
  p.stop.store(false, std::memory_order_release);
}

void start_workers(Pool& p, int n, int pin) {
  p.threads = n;
  const auto cpus = allowed_cpus();
  for (int i = 1; i < n; i++) {
    p.workers.emplace_back(worker_main, &p);
    if (pin) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(cpus[size_t(i) % cpus.size()], &set);
      pthread_setaffinity_np(p.workers.back().native_handle(), sizeof set, &set);
    }
  }
}

Pool& pool() {
  Pool* p = g_pool;
  if (p) return *p;
  std::lock_guard<std::mutex> lock(g_make);
  if (!g_pool) {
    Pool* made = new Pool;
    const char* spin = getenv("SGL_POOL_SPIN_US");
    if (spin && *spin) made->spin_ns = atoll(spin) * 1000;
    const char* n = getenv("SGL_CPU_THREADS");
    const int want = n && *n ? atoi(n) : 0;
    start_workers(*made, want > 0 ? want : pool_default_threads(), 0);
    // After fork the child has no workers: a fresh pool is made on its first use.
    pthread_atfork(nullptr, nullptr, [] { g_pool = nullptr; });
    g_pool = made;
  }
  return *g_pool;
}

}  // namespace

int pool_default_threads() {
  const int cpus = int(allowed_cpus().size()), quota = quota_cpus();
  return quota > 0 && quota < cpus ? quota : cpus;
}

int pool_threads() { return pool().threads; }

int pool_set_threads(int n, int pin) {
  Pool& p = pool();
  std::lock_guard<std::mutex> lock(p.owner);
  stop_workers(p);
  start_workers(p, n > 0 ? n : pool_default_threads(), pin);
  return p.threads;
}

void pool_run(int64_t chunks, void (*fn)(void*, int64_t), void* ctx) {
  if (chunks <= 0) return;
  Pool& p = pool();
  if (t_inside || chunks == 1 || p.threads == 1 || !p.owner.try_lock()) {
    for (int64_t i = 0; i < chunks; i++) fn(ctx, i);
    return;
  }
  t_inside = true;
  const uint32_t epoch = uint32_t(p.ticket.v.load(std::memory_order_relaxed) >> 32) + 1;
  p.ticket.v.store((uint64_t(epoch) << 32) | 0xffffffffu, std::memory_order_relaxed);  // closed
  p.done.v.store(0, std::memory_order_release);
  p.fn.store(fn, std::memory_order_release);
  p.ctx.store(ctx, std::memory_order_release);
  p.chunks.store(uint32_t(chunks), std::memory_order_release);
  p.ticket.v.store(uint64_t(epoch) << 32, std::memory_order_release);                  // open
  p.wake.v.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t sleeping = p.sleepers.load(std::memory_order_seq_cst);
  if (sleeping) futex_wake(&p.wake.v, sleeping < uint32_t(chunks) ? int(sleeping) : int(chunks));
  work(p, epoch);
  int64_t start = 0;
  for (int spins = 0; p.done.v.load(std::memory_order_acquire) < uint32_t(chunks); spins++) {
    relax();
    if ((spins & 63) != 63) continue;
    const int64_t t = now_ns();
    if (!start) start = t;
    if (t - start < kCallerSpinNs) continue;
    p.caller_sleeps.v.store(1, std::memory_order_seq_cst);
    while (p.done.v.load(std::memory_order_seq_cst) < uint32_t(chunks) && p.caller_sleeps.v.load(std::memory_order_seq_cst))
      futex_wait(&p.caller_sleeps.v, 1);
    p.caller_sleeps.v.store(0, std::memory_order_seq_cst);
  }
  t_inside = false;
  p.owner.unlock();
}

namespace {
struct Scratch {
  void* p[4] = {nullptr, nullptr, nullptr, nullptr};
  int64_t n[4] = {0, 0, 0, 0};
  ~Scratch() { for (void* q : p) free(q); }
};
thread_local Scratch t_scratch;
}  // namespace

void* thread_scratch(int slot, int64_t bytes) {
  Scratch& s = t_scratch;
  if (s.n[slot] < bytes) {
    free(s.p[slot]);
    const int64_t size = (bytes + bytes / 4 + 4095) & ~int64_t(4095);
    s.p[slot] = aligned_alloc(64, size_t(size));
    if (!s.p[slot]) { fprintf(stderr, "sgl_ops: out of memory: %lld bytes of scratch\n", (long long)size); abort(); }
    s.n[slot] = size;
  }
  return s.p[slot];
}

// Runs `jobs` jobs of 2 to 41 tiny chunks, each job's state on the stack; gives how many chunks did not run exactly once.
int64_t pool_selftest(int64_t jobs) {
  int64_t wrong = 0;
  for (int64_t j = 0; j < jobs; j++) {
    const int64_t n = 2 + j * 7 % 40;
    std::atomic<int> hits[42];
    for (auto& h : hits) h.store(0, std::memory_order_relaxed);
    parallel_for(n, [&](int64_t i) { hits[i].fetch_add(1, std::memory_order_relaxed); });
    for (int64_t i = 0; i < 42; i++) wrong += hits[i].load(std::memory_order_relaxed) != (i < n ? 1 : 0);
  }
  return wrong;
}
