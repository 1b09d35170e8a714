// Integer tiles: 16 rows x 32 inputs of unsigned codes times signed 8-bit activations.
//
// One 32-bit lane is one output row; the four bytes in it are four inputs (packed.h draws the layout). The activation operand
// is the same four bytes broadcast to all lanes. What an instruction set adds up before widening:
//
//   maddubs (AVX2, AVX-512BW): pairs of u8 x s8 into 16 bits, saturating. Largest pair sum for codes below 16, 32, 64:
//     15*127*2 = 3810, 31*127*2 = 7874, 63*127*2 = 16002: so 8, 4, 2 groups fit a 16-bit lane and one madd(1) widens them.
//     AVX2 work for 8 rows x 32 inputs of 4-bit codes: 4 loads, 12 to unpack (once for M tokens), then per token
//     8 (broadcast, maddubs, add) + madd + convert + mul + fma (+ fma for minimums).
//   codes of 8 bits: |w| x (a with w's sign): 128*127*2 = 32512 fits one pair only, so each is widened at once.
//   dpbusd (VNNI): four products straight into 32 bits, and the broadcast is part of the instruction.
//
// A row's block results are added in block order by one chain: acc = fma(dot, dw * da, acc), then acc = fma(mw, da * sum(a), acc).
// Nothing depends on T, so neither does a token's result.
#pragma once
#include "linear_float.h"

namespace SGL_NS {

SGL_INLINE void scales(const PackedHeader* h, const uint8_t* p, vf (&out)[NV]) {
  SGL_EACH(v, NV)
    out[v] = h->scale_f32 ? load(reinterpret_cast<const float*>(p) + v * VL) : load_f16(reinterpret_cast<const uint16_t*>(p) + v * VL);
}

#if defined(__AVX2__)
#if SGL_VL == 16
typedef __m512i iv;
SGL_INLINE iv i_load(const void* p) { return _mm512_loadu_si512(p); }
SGL_INLINE iv i_lo4(iv x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
SGL_INLINE iv i_hi4(iv x) { return _mm512_and_si512(_mm512_srli_epi16(x, 4), _mm512_set1_epi8(15)); }
SGL_INLINE iv i_bcast(const int8_t* p) { int32_t v; memcpy(&v, p, 4); return _mm512_set1_epi32(v); }
SGL_INLINE iv i_zero() { return _mm512_setzero_si512(); }
SGL_INLINE iv i_maddubs(iv u, iv s) { return _mm512_maddubs_epi16(u, s); }
SGL_INLINE iv i_add16(iv a, iv b) { return _mm512_add_epi16(a, b); }
SGL_INLINE iv i_add32(iv a, iv b) { return _mm512_add_epi32(a, b); }
SGL_INLINE iv i_widen(iv a) { return _mm512_madd_epi16(a, _mm512_set1_epi16(1)); }
SGL_INLINE vf i_float(iv a) { return (vf)_mm512_cvtepi32_ps(a); }
struct Signed { iv mag; __mmask64 neg; };
SGL_INLINE Signed i_split(iv u) {  // u = w + 128
  const iv w = _mm512_xor_si512(u, _mm512_set1_epi8(char(0x80)));
  return {_mm512_abs_epi8(w), _mm512_movepi8_mask(w)};
}
SGL_INLINE iv i_sign(iv a, const Signed& w) { return _mm512_mask_sub_epi8(a, w.neg, _mm512_setzero_si512(), a); }
#else
typedef __m256i iv;
SGL_INLINE iv i_load(const void* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
SGL_INLINE iv i_lo4(iv x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
SGL_INLINE iv i_hi4(iv x) { return _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(15)); }
SGL_INLINE iv i_bcast(const int8_t* p) { int32_t v; memcpy(&v, p, 4); return _mm256_set1_epi32(v); }
SGL_INLINE iv i_zero() { return _mm256_setzero_si256(); }
SGL_INLINE iv i_maddubs(iv u, iv s) { return _mm256_maddubs_epi16(u, s); }
SGL_INLINE iv i_add16(iv a, iv b) { return _mm256_add_epi16(a, b); }
SGL_INLINE iv i_add32(iv a, iv b) { return _mm256_add_epi32(a, b); }
SGL_INLINE iv i_widen(iv a) { return _mm256_madd_epi16(a, _mm256_set1_epi16(1)); }
SGL_INLINE vf i_float(iv a) { return (vf)_mm256_cvtepi32_ps(a); }
struct Signed { iv mag, w; };
SGL_INLINE Signed i_split(iv u) {
  const iv w = _mm256_xor_si256(u, _mm256_set1_epi8(char(0x80)));
  return {_mm256_abs_epi8(w), w};
}
SGL_INLINE iv i_sign(iv a, const Signed& w) { return _mm256_sign_epi8(a, w.w); }
#endif

// Dot products of SUB-th half (NS = 2) or the whole (NS = 1) of block codes at p with M activation rows, one vector of VL rows.
template <int M, int CODE, int NS>
SGL_INLINE void dots(const uint8_t* p, int half, const int8_t* q, int64_t ldq, iv (&out)[M]) {
#if defined(__AVX512VNNI__)
  // Few rows: two chains per row hide the latency of dpbusd.
  iv s2[M];
  SGL_EACH(m, M) out[m] = s2[m] = i_zero();
  if (CODE == 4) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
      const iv w = i_load(p + j * 64);
      if (NS == 1 || half == 0) {
        const iv lo = i_lo4(w);
        SGL_EACH(m, M) out[m] = _mm512_dpbusd_epi32(out[m], lo, i_bcast(q + m * ldq + 4 * j));
      }
      if (NS == 1 || half == 1) {
        const iv hi = i_hi4(w);
        if (M <= 4)
          SGL_EACH(m, M) s2[m] = _mm512_dpbusd_epi32(s2[m], hi, i_bcast(q + m * ldq + 16 + 4 * j));
        else
          SGL_EACH(m, M) out[m] = _mm512_dpbusd_epi32(out[m], hi, i_bcast(q + m * ldq + 16 + 4 * j));
      }
    }
  } else {
#pragma GCC unroll 8
    for (int g = 0; g < 8 / NS; g++) {
      const iv w = i_load(p + (half * 4 + g) * 64);
      if (M <= 4 && (g & 1))
        SGL_EACH(m, M) s2[m] = _mm512_dpbusd_epi32(s2[m], w, i_bcast(q + m * ldq + half * 16 + 4 * g));
      else
        SGL_EACH(m, M) out[m] = _mm512_dpbusd_epi32(out[m], w, i_bcast(q + m * ldq + half * 16 + 4 * g));
    }
  }
  if (M <= 4)
    SGL_EACH(m, M) out[m] = i_add32(out[m], s2[m]);
#else
  if (CODE == 4) {
    iv s[M];
    SGL_EACH(m, M) s[m] = i_zero();
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
      const iv w = i_load(p + j * 64);
      if (NS == 1 || half == 0) {
        const iv lo = i_lo4(w);
        SGL_EACH(m, M) { s[m] = i_add16(s[m], i_maddubs(lo, i_bcast(q + m * ldq + 4 * j))); SGL_KEEP(s[m]); }
      }
      if (NS == 1 || half == 1) {
        const iv hi = i_hi4(w);
        SGL_EACH(m, M) { s[m] = i_add16(s[m], i_maddubs(hi, i_bcast(q + m * ldq + 16 + 4 * j))); SGL_KEEP(s[m]); }
      }
    }
    SGL_EACH(m, M) out[m] = i_widen(s[m]);
  } else if (CODE == 8) {
    SGL_EACH(m, M) out[m] = i_zero();
#pragma GCC unroll 8
    for (int g = 0; g < 8 / NS; g++) {
      const Signed w = i_split(i_load(p + (half * 4 + g) * 64));
      SGL_EACH(m, M) {
        out[m] = i_add32(out[m], i_widen(i_maddubs(w.mag, i_sign(i_bcast(q + m * ldq + half * 16 + 4 * g), w))));
        SGL_KEEP(out[m]);
      }
    }
  } else {
    constexpr int W = CODE == 5 ? 4 : 2;  // groups that fit 16 bits
    SGL_EACH(m, M) out[m] = i_zero();
#pragma GCC unroll 4
    for (int g0 = 0; g0 < 8 / NS; g0 += W) {
      iv s[M];
      SGL_EACH(m, M) s[m] = i_zero();
#pragma GCC unroll 4
      for (int g = g0; g < g0 + W; g++) {
        const iv w = i_load(p + (half * 4 + g) * 64);
        SGL_EACH(m, M) { s[m] = i_add16(s[m], i_maddubs(w, i_bcast(q + m * ldq + half * 16 + 4 * g))); SGL_KEEP(s[m]); }
      }
      SGL_EACH(m, M) out[m] = i_add32(out[m], i_widen(s[m]));
    }
  }
#endif
}

#if defined(__AVX512VNNI__)
constexpr bool kSignTrick = false;
constexpr int kIntM = 16;
#elif SGL_VL == 16
constexpr bool kSignTrick = true;
constexpr int kIntM = 8;
#else
constexpr bool kSignTrick = true;
constexpr int kIntM = 4;
#endif

// HV vectors of rows at a time, from vector v0; M tokens from t0.
template <int M, int CODE, int NS, int HV>
SGL_INLINE void int_rows(const TileCall& c, int64_t t0, int v0, vf (&acc)[M][HV]) {
  const PackedHeader* h = c.h;
  const uint8_t* p = c.tile + v0 * VL * 4;
  const uint8_t* dp0 = c.tile + h->d_off + v0 * VL * (h->scale_f32 ? 4 : 2);
  const uint8_t* mp0 = c.tile + h->m_off + v0 * VL * (h->scale_f32 ? 4 : 2);
  const int8_t* q = c.q + t0 * c.ldq;
  const float* d = c.d + t0 * c.ldd;
  const float* s = c.s + t0 * c.lds + (NS == 2 ? h->blocks : 0);
  const bool f32 = h->scale_f32, has_min = h->has_min;
  const float zero = float(h->zero - (CODE == 8 && kSignTrick ? 128 : 0));  // what the sign form leaves of the offset
  const bool use_min = has_min || zero != 0;
  const int gshift = h->gshift;
  const int64_t sub_bytes = f32 ? 64 : 32;
  const bool first = M == 1 || (t0 == 0 && v0 == 0);
  SGL_EACH(m, M)
    SGL_EACH(v, HV) acc[m][v] = vf{};
  for (int64_t b = 0; b < h->blocks; b++, p += h->block_bytes) {
    if (first) {  // the others find them in L1
      for (int i = 0; i < (CODE == 4 ? 5 : 9); i++) __builtin_prefetch(p + 2048 + i * 64);
    }
    const uint8_t* dp = dp0 + (b >> gshift) * h->d_stride;
    const uint8_t* mp = mp0 + (b >> gshift) * h->m_stride;
    for (int half = 0; half < NS; half++) {
      SGL_EACH(v, HV) {
        iv dot[M];
        dots<M, CODE, NS>(p + v * VL * 4, half, q + b * 32, c.ldq, dot);
        const uint8_t* dv = dp + half * sub_bytes + v * VL * (f32 ? 4 : 2);
        const vf dw = f32 ? load(reinterpret_cast<const float*>(dv)) : load_f16(reinterpret_cast<const uint16_t*>(dv));
        SGL_EACH(m, M) acc[m][v] = fma(i_float(dot[m]), dw * d[m * c.ldd + b], acc[m][v]);
        if (!use_min) continue;
        vf mw = dw * -zero;
        if (has_min) {
          const uint8_t* mv = mp + half * sub_bytes + v * VL * (f32 ? 4 : 2);
          const vf e = f32 ? load(reinterpret_cast<const float*>(mv)) : load_f16(reinterpret_cast<const uint16_t*>(mv));
          mw = CODE == 8 && kSignTrick ? fma(dw, splat(128.f), e) : e;
        }
        SGL_EACH(m, M) acc[m][v] = fma(mw, splat(s[m * c.lds + b * NS + half]), acc[m][v]);
      }
    }
  }
}

template <int M, int CODE, int NS>
static void int_group(const TileCall& c, int64_t t0) {
  vf acc[M][NV];
  if (M <= 2 || NV == 1) {
    int_rows<M, CODE, NS, NV>(c, t0, 0, acc);
  } else {
    SGL_EACH(v, NV) {
      vf one[M][1];
      int_rows<M, CODE, NS, 1>(c, t0, v, one);
      SGL_EACH(m, M) acc[m][v] = one[m][0];
    }
  }
  store_rows<M>(c, t0, acc);
}

template <int CODE, int NS>
static void int_tile(const TileCall& c) {
  int64_t t = 0;
  if (kIntM > 8) {
    for (; t + 16 <= c.T; t += 16) int_group<(kIntM > 8 ? 16 : 1), CODE, NS>(c, t);
    for (; t + 12 <= c.T; t += 12) int_group<(kIntM > 8 ? 12 : 1), CODE, NS>(c, t);
  }
  if (kIntM >= 8)
    for (; t + 8 <= c.T; t += 8) int_group<(kIntM >= 8 ? 8 : 1), CODE, NS>(c, t);
  for (; t + 4 <= c.T; t += 4) int_group<4, CODE, NS>(c, t);
  for (; t + 2 <= c.T; t += 2) int_group<2, CODE, NS>(c, t);
  for (; t < c.T; t++) int_group<1, CODE, NS>(c, t);
}

template <int NS>
static void int_codes(const TileCall& c) {
  switch (c.h->code_bits) {
    case 4: return int_tile<4, NS>(c);
#if !defined(__AVX512VNNI__)
    case 5: return int_tile<5, NS>(c);
    case 6: return int_tile<6, NS>(c);
#endif
    default: return int_tile<8, NS>(c);
  }
}
static void tile_int(const TileCall& c) { c.h->sub == 2 ? int_codes<2>(c) : int_codes<1>(c); }

#else  // any machine: the same sums in plain loops

static void tile_int(const TileCall& c) {
  const PackedHeader* h = c.h;
  const int NS = h->sub, span = 32 / NS;
  const int64_t sub_bytes = h->scale_f32 ? 64 : 32;
  for (int64_t t = 0; t < c.T; t++) {
    vf acc[1][NV];
    SGL_EACH(v, NV) acc[0][v] = vf{};
    const float* s = c.s + t * c.lds + (NS == 2 ? h->blocks : 0);
    for (int64_t b = 0; b < h->blocks; b++) {
      const uint8_t* p = c.tile + b * h->block_bytes;
      for (int half = 0; half < NS; half++) {
        int32_t dot[16] = {0};
        const int8_t* q = c.q + t * c.ldq + b * 32;
        for (int i = half * span; i < (half + 1) * span; i++) {
          const int g = i / 4;
          const uint8_t* w = h->code_bits == 4 ? p + (g & 3) * 64 + i % 4 : p + g * 64 + i % 4;
          const int shift = h->code_bits == 4 && g >= 4 ? 4 : 0, mask = h->code_bits == 4 ? 15 : 255;
          for (int r = 0; r < 16; r++) dot[r] += ((w[r * 4] >> shift) & mask) * q[i];
        }
        vf dw[NV], mw[NV] = {};
        scales(h, c.tile + h->d_off + (b >> h->gshift) * h->d_stride + half * sub_bytes, dw);
        if (h->has_min) scales(h, c.tile + h->m_off + (b >> h->gshift) * h->m_stride + half * sub_bytes, mw);
        SGL_EACH(v, NV) {
          const vf f = gather_i32_to_f(*reinterpret_cast<const viu*>(dot + v * VL));
          acc[0][v] = fma(f, dw[v] * c.d[t * c.ldd + b], acc[0][v]);
          acc[0][v] = fma(h->has_min ? mw[v] : dw[v] * -float(h->zero), splat(s[b * NS + half]), acc[0][v]);
        }
      }
    }
    store_rows<1>(c, t, acc);
  }
}
#endif

// One activation row: blocks of 32, scale = max|x| / 127, codes rounded to nearest even; sums of d * q for the minimums.
static void quantize_row(const float* x, int64_t k, int64_t k_pad, int8_t* q, float* d, float* s) {
  const int64_t blocks = k_pad / 32;
  const vf magic = splat(12582912.f);
  for (int64_t b = 0; b < blocks; b++) {
    float tail[32];
    const float* p = x + b * 32;
    if (b * 32 + 32 > k) {
      for (int i = 0; i < 32; i++) tail[i] = b * 32 + i < k ? p[i] : 0.f;
      p = tail;
    }
    vf a = vf{};
    for (int v = 0; v < 32; v += VL) a = max(a, abs(load(p + v)));
    const float amax = maximum(a), scale = amax / 127.f, inv = amax > 1e-30f ? 127.f / amax : 0.f;
    float half[2];
    for (int hf = 0; hf < 2; hf++) {
      vi total = vi{};
      for (int v = hf * 16; v < hf * 16 + 16; v += VL) {
        // Adding 1.5 * 2^23 leaves the rounded integer in the low mantissa bits.
        const vi n = (vi)fma(load(p + v), splat(inv), magic) - 0x4b400000;
        total += n;
        *reinterpret_cast<vbu*>(q + b * 32 + v) = __builtin_convertvector(n, vb);
      }
      half[hf] = sum(gather_i32_to_f(total));  // small integers: exact in any order
    }
    d[b] = scale;
    s[b] = scale * (half[0] + half[1]);
    s[blocks + 2 * b] = scale * half[0];
    s[blocks + 2 * b + 1] = scale * half[1];
  }
}

// The tile as f32 [k_pad][16]: the exact path multiplies this by f32 activations.
static void dequant_tile(const PackedHeader* h, const uint8_t* tile, float* dst) {
  const int NS = h->sub, span = 32 / NS;
  const int64_t sub_bytes = h->scale_f32 ? 64 : 32;
  for (int64_t b = 0; b < h->blocks; b++) {
    const uint8_t* p = tile + b * h->block_bytes;
    for (int half = 0; half < NS; half++) {
      vf dw[NV], mw[NV] = {};
      scales(h, tile + h->d_off + (b >> h->gshift) * h->d_stride + half * sub_bytes, dw);
      if (h->has_min) scales(h, tile + h->m_off + (b >> h->gshift) * h->m_stride + half * sub_bytes, mw);
      for (int i = half * span; i < (half + 1) * span; i++) {
        const int g = i / 4;
        const uint8_t* w = h->code_bits == 4 ? p + (g & 3) * 64 + i % 4 : p + g * 64 + i % 4;
        const int shift = h->code_bits == 4 && g >= 4 ? 4 : 0, mask = h->code_bits == 4 ? 15 : 255;
        int32_t code[16];
        for (int r = 0; r < 16; r++) code[r] = (w[r * 4] >> shift) & mask;
        SGL_EACH(v, NV) {
          // d * (q - zero) rounds once, as the format's definition does; with a minimum, d * q + m.
          const vf f = gather_i32_to_f(*reinterpret_cast<const viu*>(code + v * VL) - (h->has_min ? 0 : h->zero));
          store(dst + (b * 32 + i) * 16 + v * VL, h->has_min ? fma(f, dw[v], mw[v]) : f * dw[v]);
        }
      }
    }
  }
}

}  // namespace SGL_NS
