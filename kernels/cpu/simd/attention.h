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

// One cached row of n values as f32 (n a multiple of 16).
SGL_INLINE void kv_row(const void* base, int64_t index, int64_t n, KvType kv, float scale, float* out) {
  switch (kv) {
    case KV_F32: {
      const float* p = static_cast<const float*>(base) + index;
      for (int64_t i = 0; i < n; i += VL) store(out + i, load(p + i));
      return;
    }
    case KV_F16: {
      const uint16_t* p = static_cast<const uint16_t*>(base) + index;
      for (int64_t i = 0; i < n; i += VL) store(out + i, load_f16(p + i));
      return;
    }
    case KV_BF16: {
      const uint16_t* p = static_cast<const uint16_t*>(base) + index;
      for (int64_t i = 0; i < n; i += VL) store(out + i, load_bf16(p + i));
      return;
    }
    case KV_F8E4M3: {
      const uint8_t* p = static_cast<const uint8_t*>(base) + index;
      for (int64_t i = 0; i < n; i += VL) store(out + i, load_f8(p + i) * scale);
      return;
    }
    case KV_INT8: {
      const int8_t* p = static_cast<const int8_t*>(base) + index;
      for (int64_t i = 0; i < n; i += VL) store(out + i, load_i8(p + i) * scale);
      return;
    }
  }
}

#define SGL_SHUF(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
// 8 rows of 8 floats (row stride ld) to 8 columns at dst, dst + 32, ...
SGL_INLINE void transpose8(const float* src, int64_t ld, float* dst) {
  vf8 r[8], t[8], u[8];
  _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) r[i] = *reinterpret_cast<const vf8u*>(src + i * ld);
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
    *reinterpret_cast<vf8u*>(dst + i * 32) = SGL_SHUF(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    *reinterpret_cast<vf8u*>(dst + (i + 4) * 32) = SGL_SHUF(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

// Softmax of one row of a key block: scores s[32] become probabilities; [lo, hi) are the keys the row sees.
SGL_INLINE void softmax_row(float* s, int lo, int hi, float softcap, float* m, float* l, float* acc, int64_t dim_v) {
  if (hi <= lo) {
    for (int i = 0; i < 32; i += VL) store(s + i, vf{});
    return;
  }
  const float ninf = -__builtin_inff();
  if (softcap > 0)
    for (int i = 0; i < 32; i += VL) store(s + i, tanh_v(load(s + i) * (1.0f / softcap)) * softcap);
  if (lo > 0 || hi < 32) {
    for (int i = 0; i < lo; i++) s[i] = ninf;
    for (int i = hi; i < 32; i++) s[i] = ninf;
  }
  vf mx = load(s);
  for (int i = VL; i < 32; i += VL) mx = max(mx, load(s + i));
  const float block_max = maximum(mx), m_old = *m, m_new = block_max > m_old ? block_max : m_old;
  // Lanes are summed in a fixed tree, so the sum too is the same in every batch.
  vf total = vf{};
  for (int i = 0; i < 32; i += VL) {
    const vf p = exp_v(load(s + i) - m_new);
    store(s + i, p);
    total += p;
  }
  if (m_new != m_old) {
    const float c = m_old == ninf ? 0.f : exp_v(splat(m_old - m_new))[0];
    *l *= c;
    for (int64_t i = 0; i < dim_v; i += VL) store(acc + i, load(acc + i) * c);
    *m = m_new;
  }
  *l += sum(total);
}

static void attend_segment(const AttnCall& c) {
  const int64_t dim = c.dim, dim_v = c.dim_v, wide = dim > dim_v ? dim : dim_v;
  float* raw = c.scratch;
  float* kt = raw + 32 * wide;
  float* S = kt + 32 * dim;
  const bool i8 = c.kv == KV_INT8;
  const float k1 = c.kv == KV_F8E4M3 && c.k_scale ? *c.k_scale : 1.f, v1 = c.kv == KV_F8E4M3 && c.v_scale ? *c.v_scale : 1.f;
  for (int64_t kb = c.key_begin; kb < c.key_end; kb += 32) {
    const int64_t nk = c.key_end - kb < 32 ? c.key_end - kb : 32;
    if (kb > c.row_pos[c.rows - 1]) break;                                  // rows are in order of position
    if (c.window > 0 && kb + nk - 1 <= c.row_pos[0] - c.window) continue;
    int64_t slot[32];
    for (int64_t i = 0, page = kb / c.page_size, at = kb % c.page_size; i < nk; i++) {
      slot[i] = int64_t(c.pages[page]) * c.page_size + at;
      if (++at == c.page_size) at = 0, page++;
    }
    for (int64_t i = 0; i < nk; i++) kv_row(c.k, slot[i] * c.stride_k, dim, c.kv, i8 ? c.k_scale[slot[i] * c.stride_scale] : k1, raw + i * dim);
    for (int64_t i = nk * dim; i < 32 * dim; i++) raw[i] = 0.f;
    for (int64_t i = 0; i < 32; i += 8)
      for (int64_t e = 0; e < dim; e += 8) transpose8(raw + i * dim + e, dim, kt + e * 32 + i);
    panel<false>(kt, 32, 32, dim, c.q, dim, c.rows, S, 32);
    for (int64_t r = 0; r < c.rows; r++) {
      const int64_t pos = c.row_pos[r], first = c.window > 0 ? pos - c.window + 1 - kb : 0, last = pos + 1 - kb;
      const int lo = int(first > 0 ? (first < 32 ? first : 32) : 0), hi = int(last < nk ? last : nk);
      softmax_row(S + r * 32, lo, hi, c.softcap, c.m + r, c.l + r, c.acc + r * dim_v, dim_v);
    }
    for (int64_t i = 0; i < nk; i++) kv_row(c.v, slot[i] * c.stride_v, dim_v, c.kv, i8 ? c.v_scale[slot[i] * c.stride_scale] : v1, raw + i * dim_v);
    panel<true>(raw, dim_v, dim_v, nk, S, 32, c.rows, c.acc, dim_v);
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
