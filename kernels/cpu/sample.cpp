// Choosing tokens from [R, V] logits: argmax, temperature, top-k, top-p, min-p and a seeded draw, without sorting V numbers.
#include <math.h>

#include <algorithm>
#include <vector>

#include "api.h"
#include "kernels.h"
#include "pool.h"

namespace {

// A counter-based generator: the draw is a function of (seed, position) alone, so a batch cannot change it.
// Two rounds of the splitmix64 finalizer (Steele, Lea, Flood 2014).
uint64_t mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
double uniform(uint64_t seed, uint64_t position) {  // in (0, 1)
  return (double(mix(mix(seed) ^ (position * 0xd1342543de82ef95ull)) >> 11) + 0.5) * 0x1p-53;
}

struct SampleArgs {
  const float* logits; int64_t ld, R, V;
  const float *temperature, *top_p, *min_p;
  const int32_t* top_k;
  const int64_t *seeds, *positions;
  int32_t* out;
};

uint32_t bits_of(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }

// A token that may be drawn and its weight: probability over the largest one.
struct Candidate { float w; int32_t id; };

// Tokens with weight at least tau, in order of id.
void collect(const float* w, int64_t V, float tau, std::vector<Candidate>& out) {
  out.clear();
  for (int64_t i = 0; i < V; i++)
    if (w[i] >= tau) out.push_back({w[i], int32_t(i)});
}

// Leaves what top-k and top-p keep (both on the whole distribution: a token stays if fewer than k are before it and the mass
// before it is at most top_p; equal weights go by id). False if the candidates end before either limit does. Weights are
// positive floats up to 1, so their bits order them: a histogram by exponent and three mantissa bits finds the bin where the
// cut falls, and only that bin is sorted.
bool cut(std::vector<Candidate>& list, int64_t k, double limit, bool complete) {
  constexpr int kBins = 1024;
  int64_t count[kBins] = {0};
  double mass[kBins] = {0};
  for (const Candidate& c : list) {
    const uint32_t b = bits_of(c.w) >> 20;
    count[b]++;
    mass[b] += double(c.w);
  }
  int64_t n = 0;
  double sum = 0;
  int bin = kBins - 1;
  for (; bin >= 0; bin--) {
    if (!count[bin]) continue;
    if (n + count[bin] >= k || sum + mass[bin] > limit) break;
    n += count[bin];
    sum += mass[bin];
  }
  if (bin < 0) return complete;  // nothing falls off
  std::vector<Candidate> in;
  for (const Candidate& c : list)
    if (int(bits_of(c.w) >> 20) == bin) in.push_back(c);
  std::sort(in.begin(), in.end(), [](const Candidate& a, const Candidate& b) { return a.w != b.w ? a.w > b.w : a.id < b.id; });
  Candidate last = in[0];
  for (const Candidate& c : in) {
    if (n >= k || sum > limit) break;  // never at the first: the bins before it left room
    last = c;
    n++;
    sum += double(c.w);
  }
  list.erase(std::remove_if(list.begin(), list.end(), [&](const Candidate& c) { return c.w < last.w || (c.w == last.w && c.id > last.id); }), list.end());
  return true;
}

// The token at u (0..1) of the whole distribution's mass: sums of blocks of 512 first, then inside one block.
int64_t draw_from_all(const float* w, int64_t V, double u, int64_t otherwise) {
  constexpr int64_t kBlock = 512;
  static thread_local std::vector<double> sums;
  sums.clear();
  double total = 0;
  for (int64_t i = 0; i < V; i += kBlock) {
    const int64_t n = V - i < kBlock ? V - i : kBlock;
    double part[4] = {0, 0, 0, 0};
    for (int64_t j = 0; j < n; j++) part[j & 3] += double(w[i + j]);
    sums.push_back((part[0] + part[2]) + (part[1] + part[3]));
    total += sums.back();
  }
  double target = u * total;
  size_t b = 0;
  for (; b + 1 < sums.size() && sums[b] <= target; b++) target -= sums[b];
  int64_t last = otherwise;
  for (int64_t i = int64_t(b) * kBlock; i < V && i < int64_t(b + 1) * kBlock; i++) {
    if (w[i] <= 0.f) continue;
    last = i;
    target -= double(w[i]);
    if (target < 0) break;
  }
  return last;
}

int32_t draw(const Kernels* k, const SampleArgs& a, int64_t r) {
  const float* x = a.logits + r * a.ld;
  float top;
  const int64_t best = k->argmax(x, a.V, &top);
  const float t = a.temperature ? a.temperature[r] : 1.f;
  const int64_t top_k = a.top_k && a.top_k[r] > 0 && a.top_k[r] < a.V ? a.top_k[r] : a.V;
  if (!(t > 0) || top_k == 1 || !(top > -INFINITY)) return int32_t(best);
  float* w = static_cast<float*>(thread_scratch(3, a.V * 4 + 64));
  const double total = double(k->exp_sum(x, a.V, top, 1.0f / t, w));
  const double top_p = a.top_p ? double(a.top_p[r]) : 1.0;
  const float min_p = a.min_p && a.min_p[r] > 0 ? a.min_p[r] : 0.f;
  const double u = uniform(a.seeds ? uint64_t(a.seeds[r]) : 0, a.positions ? uint64_t(a.positions[r]) : 0);
  const bool cuts = top_k < a.V || top_p < 1.0;
  if (!cuts && min_p == 0) return int32_t(draw_from_all(w, a.V, u, best));
  static thread_local std::vector<Candidate> list;
  // A trained model's distribution is steep: what lies 2^-14 below the best token is rarely reached, and then a second look is cheap.
  const float tau = 0x1p-14f;
  collect(w, a.V, min_p > 0 && !cuts ? min_p : tau, list);
  if (cuts && !cut(list, top_k, top_p * total, false)) {
    collect(w, a.V, 0x1p-149f, list);
    cut(list, top_k, top_p * total, true);
  }
  double kept = 0;
  for (const Candidate& c : list)
    if (c.w >= min_p) kept += double(c.w);
  double target = u * kept;
  int32_t last = int32_t(best);
  for (const Candidate& c : list) {
    if (c.w < min_p) continue;
    last = c.id;
    target -= double(c.w);
    if (target < 0) break;
  }
  return last;
}

void sample_run(const SampleArgs& a) {
  const Kernels* k = sgl_kernels();
  parallel_for(a.R, [&](int64_t r) { a.out[r] = draw(k, a, r); });
}

struct ArgmaxArgs { const float* logits; int64_t ld, R, V; int32_t* out; };

void argmax_run(const ArgmaxArgs& a) {
  const Kernels* k = sgl_kernels();
  parallel_for(a.R, [&](int64_t r) {
    float top;
    a.out[r] = int32_t(k->argmax(a.logits + r * a.ld, a.V, &top));
  });
}

struct LseArgs { const float* logits; int64_t ld, R, V; float inv_t; float pad; float* out; };

void logsumexp_run(const LseArgs& a) {
  const Kernels* k = sgl_kernels();
  parallel_for(a.R, [&](int64_t r) {
    float top;
    const float* x = a.logits + r * a.ld;
    k->argmax(x, a.V, &top);
    a.out[r] = isinf(top) ? top : top * a.inv_t + logf(k->exp_sum(x, a.V, top, a.inv_t, nullptr));
  });
}

struct MaskArgs { float* logits; int64_t ld, V; const int32_t* masks; int64_t ldm; const int32_t* rows; int64_t n; };

void mask_run(const MaskArgs& a) {
  parallel_for(a.n, [&](int64_t i) {
    float* x = a.logits + (a.rows ? a.rows[i] : i) * a.ld;
    const uint32_t* m = reinterpret_cast<const uint32_t*>(a.masks + i * a.ldm);
    for (int64_t w = 0; w * 32 < a.V; w++) {
      if (m[w] == 0xffffffffu) continue;
      const int64_t end = w * 32 + 32 < a.V ? 32 : a.V - w * 32;
      for (int64_t b = 0; b < end; b++)
        if (!((m[w] >> b) & 1)) x[w * 32 + b] = -INFINITY;
    }
  });
}

}  // namespace

SGL_API int sgl_argmax(const float* logits, int64_t ld, int64_t R, int64_t V, int32_t* out) {
  ArgmaxArgs a{logits, ld, R, V, out};
  return SGL_SUBMIT(ArgmaxArgs, argmax_run, a);
}

// Per-row parameters may be null: temperature 1, no top-k (also <= 0), top_p 1, min_p 0, seed 0, position 0. temperature <= 0: argmax.
SGL_API int sgl_sample(const float* logits, int64_t ld, int64_t R, int64_t V, const float* temperature, const int32_t* top_k,
                       const float* top_p, const float* min_p, const int64_t* seeds, const int64_t* positions, int32_t* out) {
  SampleArgs a{logits, ld, R, V, temperature, top_p, min_p, top_k, seeds, positions, out};
  return SGL_SUBMIT(SampleArgs, sample_run, a);
}

// out[r] = log(sum(exp(logits[r] * inv_t))): logprob = logit * inv_t - out.
SGL_API int sgl_logsumexp(const float* logits, int64_t ld, int64_t R, int64_t V, float inv_t, float* out) {
  LseArgs a{logits, ld, R, V, inv_t, 0, out};
  return SGL_SUBMIT(LseArgs, logsumexp_run, a);
}

// Rows rows[i] (null: i) get -inf where bit t of masks[i] is 0; words of 32 tokens, lowest bit first.
SGL_API int sgl_mask_logits(float* logits, int64_t ld, int64_t V, const int32_t* masks, int64_t ldm, const int32_t* rows, int64_t n) {
  if (ldm * 32 < V) return fail("mask: %lld words do not cover %lld tokens", (long long)ldm, (long long)V);
  MaskArgs a{logits, ld, V, masks, ldm, rows, n};
  return SGL_SUBMIT(MaskArgs, mask_run, a);
}
