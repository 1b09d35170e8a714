// Attention of few query rows (the heads of a group: a decode step) over one segment of keys. The same sums in the same order as
// attention.h, arranged for reading the cache once at the speed of memory instead of for reusing registers over many rows:
//
//   keys     --transpose 32-bit units-->  kt [unit][32 keys]  S[rows][keys of the segment] = q . kt, by blocks of 32 keys
//   weights  --softmax block by block-->  P = S, and the factor by which each block's maximum shrinks what came before
//   values   --straight from the cache->  acc[rows][dim_v] = acc * factor + P . values
//
// A bf16 key moves as pairs of elements, so a shuffle serves two; a pair is widened by a shift (even element) and a mask (odd) right
// before its multiply-adds. Values are widened the same way, their sums put back in order once a segment. Other types are converted
// first. Transposing by 16 x 16 costs 4 shuffles per 16 units, by 8 x 8 (AVX2) 3 per 8.
#pragma once
#include "attention.h"

namespace SGL_NS {

#if SGL_VL == 16
#define SGL_EVENS 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define SGL_ODDS 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define SGL_LOW_PAIRS 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define SGL_HIGH_PAIRS 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#else
#define SGL_EVENS 0, 2, 4, 6, 8, 10, 12, 14
#define SGL_ODDS 1, 3, 5, 7, 9, 11, 13, 15
#define SGL_LOW_PAIRS 0, 8, 1, 9, 2, 10, 3, 11
#define SGL_HIGH_PAIRS 4, 12, 5, 13, 6, 14, 7, 15
#endif

constexpr int64_t kFew = 8;  // rows; from here on the panels' reuse pays
constexpr int64_t kSegmentBlocks = kAttnSegment / KB;

// VL cached keys to kt, columns of stride KB: pairs of bf16 elements, or floats.
template <KvType KV>
SGL_INLINE void spread_keys_few(const typename Kv<KV>::T* const* rows, const float* scale, int64_t dim, float* kt) {
  constexpr bool kPairs = KV == KV_BF16;
  constexpr int64_t kStep = kPairs ? 2 * VL : VL;
  for (int64_t e = 0; e < dim; e += kStep) {
    vf x[VL];
    if (kPairs && VL == 16 && dim - e < kStep) {  // half of the units exist; the other columns are written and never read
      SGL_EACH(i, VL) {
        x[i] = vf{};
        memcpy(&x[i], rows[i] + e, sizeof(vf8));
      }
    } else {
      SGL_EACH(i, VL) {
        x[i] = kPairs ? load(reinterpret_cast<const float*>(rows[i] + e)) : Kv<KV>::wide(rows[i] + e);
        if (KV == KV_INT8 || KV == KV_F8E4M3) x[i] *= scale[i];
      }
    }
    transpose(x, kt + (kPairs ? e / 2 : e) * KB, KB);
  }
}

SGL_INLINE vf even_bf16(vf pairs) { return (vf)((vi)pairs << 16); }
SGL_INLINE vf odd_bf16(vf pairs) { return (vf)((vi)pairs & int32_t(0xffff0000)); }

// S[R][KB keys] = q[R][dim] . kt; meanwhile `count` rows are fetched, a few at a time: in one go they would fill the line buffers.
template <KvType KV, int R>
static void scores_few(const float* kt, const float* q, int64_t dim, float* S, const typename Kv<KV>::T* const* ahead, int64_t count,
                       int64_t fetch) {
  constexpr bool kPairs = KV == KV_BF16;
  constexpr int N = 2, kPieces = 8, kFetch = N * VL / kPieces;
  for (int64_t at = 0; at < KB; at += N * VL) {
    vf acc[R][N];
    SGL_EACH(r, R)
      SGL_EACH(v, N) acc[r][v] = vf{};
    const float* p = kt + at;
    for (int64_t piece = 0, e = 0; piece < kPieces; piece++) {
      for (int64_t i = at + piece * kFetch; i < at + (piece + 1) * kFetch && i < count; i++) prefetch_row(ahead[i], fetch);
      for (const int64_t end = e + dim / kPieces; e < end; e += kPairs ? 2 : 1, p += KB) {
        vf x[N];
        SGL_EACH(v, N) x[v] = load(p + v * VL);
        if (kPairs) {
          SGL_EACH(v, N) {
            const vf even = even_bf16(x[v]);
            SGL_EACH(r, R) acc[r][v] = fma(splat(q[r * dim + e]), even, acc[r][v]);
            x[v] = odd_bf16(x[v]);
          }
        }
        SGL_EACH(v, N)
          SGL_EACH(r, R) acc[r][v] = fma(splat(q[r * dim + e + kPairs]), x[v], acc[r][v]);
      }
    }
    SGL_EACH(r, R)
      SGL_EACH(v, N) store(S + r * kAttnSegment + at + v * VL, acc[r][v]);
  }
}

// acc[R][NC vectors from element e on] over the keys [first, n) of the segment.
template <KvType KV, int R, int NC>
static void values_few(const KeyRows<KV, kAttnSegment>& keys, const float* P, const float* factor, int64_t first, int64_t n, int64_t e,
                       float* to, int64_t dim_v) {
  constexpr bool kPairs = KV == KV_BF16 && NC % 2 == 0;
  vf acc[R][NC];
  SGL_EACH(r, R) {
    SGL_EACH(v, NC) acc[r][v] = load(to + r * dim_v + e + v * VL);
    if (kPairs)
      for (int v = 0; v < NC; v += 2) {
        const vf a = acc[r][v], b = acc[r][v + 1];
        acc[r][v] = __builtin_shufflevector(a, b, SGL_EVENS);
        acc[r][v + 1] = __builtin_shufflevector(a, b, SGL_ODDS);
      }
  }
  for (int64_t b = first; b < n; b += KB) {
    SGL_EACH(r, R) {
      const float c = factor[r * kSegmentBlocks + b / KB];
      SGL_EACH(v, NC) acc[r][v] *= c;
    }
    const int64_t end = b + KB < n ? b + KB : n;
    for (int64_t i = b; i < end; i++) {
      const typename Kv<KV>::T* from = keys.v[i] + e;
      if (i + KB < n) prefetch_row(keys.v[i + KB] + e, NC * VL);
      vf x[NC];
      if (kPairs) {
        _Pragma("GCC unroll 4") for (int v = 0; v < NC; v += 2) {
          const vf pairs = load(reinterpret_cast<const float*>(from + v * VL));
          x[v] = even_bf16(pairs);
          x[v + (NC > 1)] = odd_bf16(pairs);
        }
      } else {
        SGL_EACH(v, NC) {
          x[v] = Kv<KV>::wide(from + v * VL);
          if (KV == KV_INT8 || KV == KV_F8E4M3) x[v] *= keys.v_scale[i];
        }
      }
      SGL_EACH(r, R) {
        const vf p = splat(P[r * kAttnSegment + i]);
        SGL_EACH(v, NC) acc[r][v] = fma(p, x[v], acc[r][v]);
      }
    }
  }
  SGL_EACH(r, R) {
    if (kPairs)
      for (int v = 0; v < NC; v += 2) {
        const vf a = acc[r][v], b = acc[r][v + 1];
        acc[r][v] = __builtin_shufflevector(a, b, SGL_LOW_PAIRS);
        acc[r][v + 1] = __builtin_shufflevector(a, b, SGL_HIGH_PAIRS);
      }
    SGL_EACH(v, NC) store(to + r * dim_v + e + v * VL, acc[r][v]);
  }
}

template <KvType KV, int R>
static void values_rows(const KeyRows<KV, kAttnSegment>& keys, const float* P, const float* factor, int64_t first, int64_t n, float* to,
                        int64_t dim_v) {
  constexpr int NC = VL == 16 || R <= 2 ? 4 : 2;
  int64_t e = 0;
  for (; e + NC * VL <= dim_v; e += NC * VL) values_few<KV, R, NC>(keys, P, factor, first, n, e, to, dim_v);
  for (; e + 2 * VL <= dim_v; e += 2 * VL) values_few<KV, R, 2>(keys, P, factor, first, n, e, to, dim_v);
  for (; e < dim_v; e += VL) values_few<KV, R, 1>(keys, P, factor, first, n, e, to, dim_v);
}

template <KvType KV>
static void attend_few(const AttnCall& c) {
  typedef typename Kv<KV>::T T;
  const int64_t seen = c.row_pos[c.rows - 1] + 1, n = (seen < c.key_end ? seen : c.key_end) - c.key_begin;
  const int64_t hidden = c.window > 0 ? c.row_pos[0] - c.window + 1 - c.key_begin : 0, first = hidden > 0 ? hidden / KB * KB : 0;
  if (first >= n) return;
  KeyRows<KV, kAttnSegment> keys;
  KeyRows<KV, kAttnSegment>::find(c, c.key_begin, n, keys);
  alignas(64) float S[kFew * kAttnSegment];
  float factor[kFew * kSegmentBlocks];
  for (int64_t i = first; i < n && i < first + KB; i++) prefetch_row(keys.k[i], c.dim);
  for (int64_t b = first; b < n; b += KB) {
    const int64_t end = b + KB < n ? b + KB : n;
    for (int64_t at = 0; b + at < end; at += VL) spread_keys_few<KV>(keys.k + b + at, keys.k_scale + b + at, c.dim, c.scratch + at);
    // The next block's keys, or the first values.
    const bool more = end < n;
    const T* const* ahead = more ? keys.k + end : keys.v + first;
    const int64_t left = more ? n - end : n - first, count = left < KB ? left : KB, fetch = more ? c.dim : c.dim_v;
    const float* q = c.q;
    float* s = S + b;
    for (int64_t r = 0, step; r < c.rows; r += step, q += step * c.dim, s += step * kAttnSegment) {
      step = c.rows - r < 4 ? c.rows - r : 4;
      if (step == 4) scores_few<KV, 4>(c.scratch, q, c.dim, s, ahead, r ? 0 : count, fetch);
      else if (step == 3) scores_few<KV, 3>(c.scratch, q, c.dim, s, ahead, r ? 0 : count, fetch);
      else if (step == 2) scores_few<KV, 2>(c.scratch, q, c.dim, s, ahead, r ? 0 : count, fetch);
      else scores_few<KV, 1>(c.scratch, q, c.dim, s, ahead, r ? 0 : count, fetch);
    }
  }
  for (int64_t b = first; b < n; b += KB)
    for (int64_t r = 0; r < c.rows; r++)
      factor[r * kSegmentBlocks + b / KB] = weights_row(c, r, c.key_begin + b, n - b < KB ? n - b : KB, S + r * kAttnSegment + b);
  for (int64_t r = 0, step; r < c.rows; r += step) {
    const float *P = S + r * kAttnSegment, *f = factor + r * kSegmentBlocks;
    float* to = c.acc + r * c.dim_v;
    step = c.rows - r < 4 ? c.rows - r : 4;
    if (step == 4) values_rows<KV, 4>(keys, P, f, first, n, to, c.dim_v);
    else if (step == 3) values_rows<KV, 3>(keys, P, f, first, n, to, c.dim_v);
    else if (step == 2) values_rows<KV, 2>(keys, P, f, first, n, to, c.dim_v);
    else values_rows<KV, 1>(keys, P, f, first, n, to, c.dim_v);
  }
}

static void attend_segment(const AttnCall& c) {
  const bool few = c.rows <= kFew;
  switch (c.kv) {
    case KV_F32: return few ? attend_few<KV_F32>(c) : attend_typed<KV_F32>(c);
    case KV_F16: return few ? attend_few<KV_F16>(c) : attend_typed<KV_F16>(c);
    case KV_BF16: return few ? attend_few<KV_BF16>(c) : attend_typed<KV_BF16>(c);
    case KV_F8E4M3: return few ? attend_few<KV_F8E4M3>(c) : attend_typed<KV_F8E4M3>(c);
    case KV_INT8: return few ? attend_few<KV_INT8>(c) : attend_typed<KV_INT8>(c);
  }
}

}  // namespace SGL_NS
