// Attention of a block of query rows over one segment of paged keys, by blocks of 32 keys with an online softmax.
//
//   keys of the block  --convert, transpose 8x8-->  kt [dim][32 keys]    S[rows][32] = q . kt
//   values             --convert-------------->     raw [32 keys][dim_v]  acc[rows][dim_v] += P . raw
//
// Both products are the f32 panel kernel, so each number is one chain over dim (or keys) in order. Key blocks lie at absolute
// multiples of 32 and segments at multiples of 256 whatever the batch: decode, chunked prefill and any split over threads
// give the same bits. Transposing costs 3 shuffles per 8 elements, shared by all rows of the call (the heads of a group).
#pragma once
#include "linear_float.h"

namespace SGL_NS {

constexpr int64_t KB = kAttnKeys;

// How a cache type is read: VL or 8 elements as f32, before scaling.
template <KvType KV> struct Kv;
template <> struct Kv<KV_F32> {
  typedef float T;
  SGL_INLINE vf wide(const T* p) { return load(p); }
  SGL_INLINE vf8 eight(const T* p) { return *reinterpret_cast<const vf8u*>(p); }
};
#if SGL_VL == 8
#define SGL_EIGHT(x) SGL_INLINE vf8 eight(const T* p) { return wide(p); }
#else
#define SGL_EIGHT(x) SGL_INLINE vf8 eight(const T* p) { return (vf8)(x); }
#endif
template <> struct Kv<KV_F16> {
  typedef uint16_t T;
  SGL_INLINE vf wide(const T* p) { return load_f16(p); }
  SGL_EIGHT(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))
};
template <> struct Kv<KV_BF16> {
  typedef uint16_t T;
  SGL_INLINE vf wide(const T* p) { return load_bf16(p); }
  SGL_EIGHT(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16))
};
template <> struct Kv<KV_F8E4M3> {
  typedef uint8_t T;
  SGL_INLINE vf wide(const T* p) { return load_f8(p); }
  SGL_EIGHT(_mm256_cvtph_ps(f8_as_f16(p)) * _mm256_set1_ps(256.f))
};
template <> struct Kv<KV_INT8> {
  typedef int8_t T;
  SGL_INLINE vf wide(const T* p) { return load_i8(p); }
  SGL_EIGHT(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))))
};

#define SGL_SHUF(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
// 8 rows of 8 floats to 8 columns at dst, dst + stride, ...
SGL_INLINE void transpose(vf8 (&r)[8], float* dst, int64_t stride) {
  vf8 t[8], u[8];
  _Pragma("GCC unroll 8") for (int i = 0; i < 8; i += 2) {
    t[i] = SGL_SHUF(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    t[i + 1] = SGL_SHUF(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  _Pragma("GCC unroll 8") for (int i = 0; i < 8; i += 4) {
    u[i] = SGL_SHUF(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    u[i + 1] = SGL_SHUF(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    u[i + 2] = SGL_SHUF(t[i + 1], t[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    u[i + 3] = SGL_SHUF(t[i + 1], t[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  _Pragma("GCC unroll 8") for (int i = 0; i < 4; i++) {
    *reinterpret_cast<vf8u*>(dst + i * stride) = SGL_SHUF(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    *reinterpret_cast<vf8u*>(dst + (i + 4) * stride) = SGL_SHUF(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}
#if defined(__AVX512F__)
// 16 rows of 16 units of 32 bits to 16 columns at dst, dst + stride, ..., all 64-byte aligned; stride in units.
SGL_INLINE void transpose(vf (&rows)[16], float* dst, int64_t stride) {
  __m512i r[16], t[16];
  SGL_EACH(i, 8) {
    t[2 * i] = _mm512_unpacklo_epi32((__m512i)rows[2 * i], (__m512i)rows[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32((__m512i)rows[2 * i], (__m512i)rows[2 * i + 1]);
  }
  SGL_EACH(i, 4) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  SGL_EACH(i, 4) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  SGL_EACH(i, 8) {
    _mm512_store_si512(dst + i * stride, _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88));
    _mm512_store_si512(dst + (i + 8) * stride, _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd));
  }
}
#endif

// Elements [e, e + 8) of 8 cached keys to 8 columns at dst, dst + 32, ...
template <KvType KV>
SGL_INLINE void transpose8(const typename Kv<KV>::T* const* rows, const float* scale, int64_t e, float* dst) {
  vf8 r[8];
  _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) {
    r[i] = Kv<KV>::eight(rows[i] + e);
    if (KV == KV_INT8 || KV == KV_F8E4M3) r[i] *= scale[i];
  }
  transpose(r, dst, KB);
}

// Softmax of one row of a key block: scores s[KB] become probabilities; [lo, hi) are the keys the row sees.
// Gives the factor by which the numerator summed so far shrinks (l has shrunk already).
SGL_INLINE float softmax_row(float* s, int lo, int hi, float softcap, float* m, float* l) {
  if (hi <= lo) {
    for (int i = 0; i < KB; i += VL) store(s + i, vf{});
    return 1.f;
  }
  const float ninf = -__builtin_inff();
  if (softcap > 0)
    for (int i = 0; i < KB; i += VL) store(s + i, tanh_v(load(s + i) * (1.0f / softcap)) * softcap);
  if (lo > 0 || hi < KB) {
    for (int i = 0; i < lo; i++) s[i] = ninf;
    for (int i = hi; i < KB; i++) s[i] = ninf;
  }
  vf mx = load(s);
  for (int i = VL; i < KB; i += VL) mx = max(mx, load(s + i));
  const float block_max = maximum(mx), m_old = *m, m_new = block_max > m_old ? block_max : m_old;
  // Lanes are summed in a fixed tree, so the sum too is the same in every batch.
  vf total = vf{};
  for (int i = 0; i < KB; i += VL) {
    const vf p = exp_v(load(s + i) - m_new);
    store(s + i, p);
    total += p;
  }
  const float c = m_new == m_old ? 1.f : m_old == ninf ? 0.f : exp_v(splat(m_old - m_new))[0];
  float kept = *l * c;
  SGL_KEEP(kept);  // never one multiply-add with the sum: wherever this is inlined, the same bits
  *l = kept + sum(total);
  *m = m_new;
  return c;
}

// The same for row r of the call over the keys [kb, kb + nk).
SGL_INLINE float weights_row(const AttnCall& c, int64_t r, int64_t kb, int64_t nk, float* s) {
  const int64_t pos = c.row_pos[r], first = c.window > 0 ? pos - c.window + 1 - kb : 0, last = pos + 1 - kb;
  const int lo = int(first > 0 ? (first < KB ? first : KB) : 0), hi = int(last < nk ? last : nk);
  return softmax_row(s, lo, hi, c.softcap, c.m + r, c.l + r);
}

// Where N keys lie.
template <KvType KV, int64_t N = KB>
struct KeyRows {
  typedef typename Kv<KV>::T T;
  const T *k[N], *v[N];
  float k_scale[N], v_scale[N];

  // Keys [kb, kb + n), n at most N.
  SGL_INLINE void find(const AttnCall& c, int64_t kb, int64_t n, KeyRows& r) {
    const float k1 = KV == KV_F8E4M3 && c.k_scale ? *c.k_scale : 1.f, v1 = KV == KV_F8E4M3 && c.v_scale ? *c.v_scale : 1.f;
    for (int64_t i = 0, page = kb / c.page_size, at = kb % c.page_size; i < n; i++) {
      const int64_t slot = int64_t(c.pages[page]) * c.page_size + at;
      if (++at == c.page_size) at = 0, page++;
      r.k[i] = static_cast<const T*>(c.k) + slot * c.stride_k;
      r.v[i] = static_cast<const T*>(c.v) + slot * c.stride_v;
      if (KV == KV_INT8 || KV == KV_F8E4M3) {
        r.k_scale[i] = KV == KV_INT8 ? c.k_scale[slot * c.stride_scale] : k1;
        r.v_scale[i] = KV == KV_INT8 ? c.v_scale[slot * c.stride_scale] : v1;
      }
    }
    for (int64_t i = n; i < (n + 15) / 16 * 16; i++) {  // repeated keys, masked later
      r.k[i] = r.k[0];
      r.k_scale[i] = KV == KV_INT8 || KV == KV_F8E4M3 ? r.k_scale[0] : 1.f;
    }
  }
};

// Rows of one head lie apart (the other heads are between them): the hardware does not guess them in time from memory.
template <class T>
SGL_INLINE void prefetch_row(const T* row, int64_t n) {
  for (int64_t b = 0; b < n * int64_t(sizeof(T)); b += 64) __builtin_prefetch(reinterpret_cast<const uint8_t*>(row) + b);
}

template <KvType KV>
static void attend_typed(const AttnCall& c) {
  typedef typename Kv<KV>::T T;
  constexpr bool kScaled = KV == KV_INT8 || KV == KV_F8E4M3;
  const int64_t dim = c.dim, dim_v = c.dim_v;
  float* raw = c.scratch;
  float* kt = raw + KB * dim_v;
  float* S = kt + KB * dim;
  KeyRows<KV> blocks[2];
  int turn = 0;
  bool found = false;  // whether blocks[turn] was looked up while the block before it ran
  for (int64_t kb = c.key_begin; kb < c.key_end; kb += KB) {
    const int64_t nk = c.key_end - kb < KB ? c.key_end - kb : KB;
    if (kb > c.row_pos[c.rows - 1]) break;  // rows are in order of position
    if (c.window > 0 && kb + nk - 1 <= c.row_pos[0] - c.window) continue;
    KeyRows<KV>& rows = blocks[turn];
    if (!found) KeyRows<KV>::find(c, kb, nk, rows);
    KeyRows<KV>& next = blocks[turn ^= 1];
    const int64_t left = c.key_end - kb - KB, ahead = left < 0 ? 0 : left < KB ? left : KB;
    KeyRows<KV>::find(c, kb + (ahead ? KB : 0), ahead, next);
    found = ahead > 0;
    for (int64_t i = 0; i < nk; i += 8) {
      for (int64_t j = i; j < i + 8 && j < nk; j++) prefetch_row(rows.v[j], dim_v);
      for (int64_t e = 0; e < dim; e += 8) transpose8<KV>(rows.k + i, rows.k_scale + i, e, kt + e * KB + i);
    }
    panel<false>(kt, KB, (nk + 31) / 32 * 32, dim, c.q, dim, c.rows, S, KB);
    for (int64_t r = 0; r < c.rows; r++) {
      const float shrink = weights_row(c, r, kb, nk, S + r * KB);
      float* acc = c.acc + r * dim_v;
      if (shrink != 1.f)
        for (int64_t i = 0; i < dim_v; i += VL) store(acc + i, load(acc + i) * shrink);
    }
    for (int64_t i = 0; i < nk; i++) {
      float* to = raw + i * dim_v;
      const T* from = rows.v[i];
      if (i < ahead) prefetch_row(next.k[i], dim);
      for (int64_t e = 0; e < dim_v; e += 16)
        SGL_EACH(v, NV) {
          const vf x = Kv<KV>::wide(from + e + v * VL);
          store(to + e + v * VL, kScaled ? x * rows.v_scale[i] : x);
        }
    }
    panel<true>(raw, dim_v, dim_v, nk, S, KB, c.rows, c.acc, dim_v);
  }
}

// Adds a segment's (m, l, acc) to the running (M, L, A), row by row.
static void attend_merge(const float* m, const float* l, const float* acc, int64_t rows, int64_t dim, float* M, float* L, float* A) {
  const float ninf = -__builtin_inff();
  for (int64_t r = 0; r < rows; r++, acc += dim, A += dim) {
    if (m[r] == ninf) continue;
    const float top = m[r] > M[r] ? m[r] : M[r];
    const float a = M[r] == ninf ? 0.f : exp_v(splat(M[r] - top))[0], b = exp_v(splat(m[r] - top))[0];
    L[r] = fma(splat(L[r]), splat(a), splat(l[r] * b))[0];
    for (int64_t i = 0; i < dim; i += VL) store(A + i, fma(load(A + i), splat(a), load(acc + i) * b));
    M[r] = top;
  }
}

}  // namespace SGL_NS
