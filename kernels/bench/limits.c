/* What this machine can do at most, per number of threads: memory read bandwidth and 256-bit f32 multiply-add rate.
 *   gcc -O3 -mavx2 -mfma -pthread limits.c -o limits && ./limits 2
 * Prints one line "GB/s GFLOP/s": the best of several passes, from the first start to the last end. */
#include <immintrin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 256 << 20, ROUNDS = 20000000 };
typedef struct { char *p; int kind; double start, end; volatile float sink; } Job;
static pthread_barrier_t barrier;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static void *work(void *arg) {
  Job *j = arg;
  pthread_barrier_wait(&barrier);
  j->start = now();
  if (j->kind == 0) {
    __m256i s[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (long i = 0; i < SIZE; i += 128) {
      _mm_prefetch(j->p + i + 2048, _MM_HINT_T0);
      _mm_prefetch(j->p + i + 2112, _MM_HINT_T0);
      for (int k = 0; k < 4; k++) s[k] = _mm256_xor_si256(s[k], _mm256_load_si256((const __m256i *)(j->p + i + 32 * k)));
    }
    j->sink = (float)_mm256_extract_epi32(_mm256_xor_si256(_mm256_xor_si256(s[0], s[1]), _mm256_xor_si256(s[2], s[3])), 0);
  } else {
    __m256 x[12], m = _mm256_set1_ps(0.999999f), c = _mm256_set1_ps(1e-7f);
    for (int i = 0; i < 12; i++) x[i] = _mm256_set1_ps(1.0f + i);
    for (long r = 0; r < ROUNDS; r++)
#pragma GCC unroll 12
      for (int i = 0; i < 12; i++) x[i] = _mm256_fmadd_ps(x[i], m, c);
    for (int i = 1; i < 12; i++) x[0] = _mm256_add_ps(x[0], x[i]);
    j->sink = _mm256_cvtss_f32(x[0]);
  }
  j->end = now();
  return NULL;
}

int main(int argc, char **argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 1;
  Job *jobs = calloc((size_t)n, sizeof *jobs);
  pthread_t *threads = calloc((size_t)n, sizeof *threads);
  for (int i = 0; i < n; i++) memset(jobs[i].p = aligned_alloc(4096, SIZE + 4096), i + 1, SIZE + 4096);
  double best[2] = {0, 0};
  for (int pass = 0; pass < 14; pass++) {
    const int kind = pass % 2;
    pthread_barrier_init(&barrier, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) { jobs[i].kind = kind; pthread_create(&threads[i], NULL, work, &jobs[i]); }
    double a = 1e30, b = 0;
    for (int i = 0; i < n; i++) {
      pthread_join(threads[i], NULL);
      if (jobs[i].start < a) a = jobs[i].start;
      if (jobs[i].end > b) b = jobs[i].end;
    }
    const double rate = n * (kind ? ROUNDS * 12.0 * 16 : (double)SIZE) / (b - a) / 1e9;
    if (rate > best[kind]) best[kind] = rate;
  }
  printf("%.1f %.1f\n", best[0], best[1]);
  return 0;
}
