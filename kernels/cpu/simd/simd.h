// Vectors for the per-ISA translation units: f32 vectors by compiler vector extensions, a few intrinsics where the
// extensions have no word. Included only by table.cpp, inside SGL_NS: nothing here may be a weak symbol, since the linker
// would keep one ISA's copy for all of them (so: no std templates, everything static and in a namespace per ISA).
#pragma once
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define SGL_VL 16
#else
#define SGL_VL 8
#endif
#define SGL_INLINE static inline __attribute__((always_inline))

namespace SGL_NS {

typedef float vf __attribute__((vector_size(SGL_VL * 4)));
typedef int32_t vi __attribute__((vector_size(SGL_VL * 4)));
typedef float vf8 __attribute__((vector_size(32)));
typedef float vfu __attribute__((vector_size(SGL_VL * 4), aligned(4), may_alias));
typedef float vf8u __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t viu __attribute__((vector_size(SGL_VL * 4), aligned(4), may_alias));
typedef uint16_t vh __attribute__((vector_size(SGL_VL * 2)));
typedef uint16_t vhu __attribute__((vector_size(SGL_VL * 2), aligned(2), may_alias));
typedef int8_t vb __attribute__((vector_size(SGL_VL)));
typedef int8_t vbu __attribute__((vector_size(SGL_VL), aligned(1), may_alias));
constexpr int VL = SGL_VL;
constexpr int NV = 16 / VL;  // vectors per 16-row tile

SGL_INLINE vf load(const float* p) { return *reinterpret_cast<const vfu*>(p); }
SGL_INLINE void store(float* p, vf v) { *reinterpret_cast<vfu*>(p) = v; }
// (A list of lanes becomes one broadcast; vf{} + x would add, since 0 + -0 is not -0.)
#if SGL_VL == 16
SGL_INLINE vf splat(float x) { return vf{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
#else
SGL_INLINE vf splat(float x) { return vf{x, x, x, x, x, x, x, x}; }
#endif
// A loop over a register tile: always unrolled, so that the arrays in it become registers.
#define SGL_EACH(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)
// Pins a value to a register here: without it the compiler sinks all additions below all products and spills them.
#if defined(__AVX512F__)
#define SGL_KEEP(x) __asm__("" : "+v"(x))
#else
#define SGL_KEEP(x) __asm__("" : "+x"(x))
#endif
SGL_INLINE vf fma(vf a, vf b, vf c) { return a * b + c; }  // contracted (-ffp-contract=fast) where the ISA has FMA
SGL_INLINE vf max(vf a, vf b) { return a > b ? a : b; }
SGL_INLINE vf min(vf a, vf b) { return a < b ? a : b; }
SGL_INLINE vf abs(vf a) { return (vf)((vi)a & 0x7fffffff); }
SGL_INLINE float sum(vf v) {
  float s = 0;
#if SGL_VL == 16
  vf8 a = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
#else
  vf8 a = v;
#endif
  typedef float v4 __attribute__((vector_size(16)));
  v4 b = __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
  s = (b[0] + b[2]) + (b[1] + b[3]);
  return s;
}
SGL_INLINE float maximum(vf v) {
#if SGL_VL == 16
  vf8 lo = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7), hi = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  vf8 a = lo > hi ? lo : hi;
#else
  vf8 a = v;
#endif
  typedef float v4 __attribute__((vector_size(16)));
  v4 l = __builtin_shufflevector(a, a, 0, 1, 2, 3), h = __builtin_shufflevector(a, a, 4, 5, 6, 7);
  v4 b = l > h ? l : h;
  float x = b[0] > b[1] ? b[0] : b[1], y = b[2] > b[3] ? b[2] : b[3];
  return x > y ? x : y;
}
SGL_INLINE vf gather_i32_to_f(vi v) { return __builtin_convertvector(v, vf); }

// ---- 16-bit and 8-bit floats ----
SGL_INLINE vf load_bf16(const uint16_t* p) {
#if defined(__AVX512F__)
  return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16);
#elif defined(__AVX2__)
  return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16);
#else
  typedef uint32_t vu __attribute__((vector_size(SGL_VL * 4)));
  return (vf)(__builtin_convertvector(*reinterpret_cast<const vhu*>(p), vu) << 16);
#endif
}
SGL_INLINE vf load_f16(const uint16_t* p) {
#if defined(__AVX512F__)
  return (vf)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__F16C__)
  return (vf)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  // Put exponent and mantissa where f32 wants them and multiply by 2^112: exact for normals and subnormals alike.
  typedef uint32_t vu __attribute__((vector_size(SGL_VL * 4)));
  const vu h = __builtin_convertvector(*reinterpret_cast<const vhu*>(p), vu);
  const vf mag = (vf)((h & 0x7fff) << 13) * 0x1p112f;
  const vi special = ((vi)(h & 0x7c00) == 0x7c00);
  const vu inf = ((h & 0x3ff) << 13) | 0x7f800000;
  const vi bits = special ? (vi)inf : (vi)mag;
  return (vf)(bits | (vi)((h & 0x8000) << 16));
#endif
}
// e4m3 (finite, bias 7) has the shape of f16 (bias 15) one bit narrower: shift into place, then times 2^8.
#if defined(__AVX2__)
SGL_INLINE __m128i f8_as_f16(const uint8_t* p) {  // 8 of them
  const __m128i b = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm_or_si128(_mm_slli_epi16(_mm_and_si128(b, _mm_set1_epi16(0x80)), 8),
                      _mm_slli_epi16(_mm_and_si128(b, _mm_set1_epi16(0x7f)), 7));
}
#endif
SGL_INLINE vf load_f8(const uint8_t* p) {
#if defined(__AVX512F__)
  const __m256i b = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i h = _mm256_or_si256(_mm256_slli_epi16(_mm256_and_si256(b, _mm256_set1_epi16(0x80)), 8),
                                    _mm256_slli_epi16(_mm256_and_si256(b, _mm256_set1_epi16(0x7f)), 7));
  return (vf)_mm512_cvtph_ps(h) * 256.f;
#elif defined(__AVX2__)
  return (vf)_mm256_cvtph_ps(f8_as_f16(p)) * 256.f;
#else
  uint16_t h[VL];
  for (int i = 0; i < VL; i++) h[i] = uint16_t(((p[i] & 0x80) << 8) | ((p[i] & 0x7f) << 7));
  return load_f16(h) * 256.f;
#endif
}
SGL_INLINE vf load_i8(const int8_t* p) {
#if defined(__AVX512F__)
  return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#elif defined(__AVX2__)
  return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  return __builtin_convertvector(__builtin_convertvector(*reinterpret_cast<const vbu*>(p), vi), vf);
#endif
}

SGL_INLINE uint32_t bits_of(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
SGL_INLINE float float_of(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
SGL_INLINE uint16_t to_bf16(float f) {
  const uint32_t u = bits_of(f);
  if ((u & 0x7fffffff) > 0x7f800000) return uint16_t((u >> 16) | 0x40);
  return uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
SGL_INLINE uint16_t to_f16(float f) {
#if defined(__F16C__)
  return uint16_t(_mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(f), 0), 0));
#else
  const uint32_t u = bits_of(f), sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000) return uint16_t(sign | 0x7e00);
  if (a >= 0x477ff000) return uint16_t(sign | 0x7c00);
  if (a < 0x38800000) return uint16_t(sign | (bits_of(float_of(a) + 0.5f) & 0x7fff));  // 0.5 has the f16 subnormal ulp
  return uint16_t(sign | ((a - 0x38000000 + 0xfff + ((a >> 13) & 1)) >> 13));
#endif
}
SGL_INLINE uint8_t to_f8(float f) {
  const uint32_t u = bits_of(f), sign = (u >> 24) & 0x80, a = u & 0x7fffffff;
  if (a > 0x7f800000) return uint8_t(sign | 0x7f);
  if (a >= bits_of(448.f)) return uint8_t(sign | 0x7e);                              // saturate, as torch's clamp does
  if (a < bits_of(0x1p-6f)) return uint8_t(sign | (bits_of(float_of(a) + 0x1p14f) & 0xf));  // 2^14 has ulp 2^-9
  const uint32_t r = a + 0x7ffff + ((a >> 20) & 1);
  return uint8_t(sign | (((r - (120u << 23)) >> 20) & 0x7f));
}

// exp on a vector: 2^n * p(r) with r in [-ln2/2, ln2/2] and a degree 6 Taylor polynomial; below -87.3 exactly 0,
// above 88 infinity (not a number stays one).
SGL_INLINE vf exp_v(vf x) {
  const vf magic = splat(12582912.f);
  const vf xc = min(max(x, splat(-88.f)), splat(88.f));
  const vf t = fma(xc, splat(1.44269504088896f), magic);
  const vf n = t - magic;
  vf r = fma(n, splat(-0.693359375f), xc);
  r = fma(n, splat(2.12194440e-4f), r);
  vf p = splat(1.0f / 720);
  p = fma(p, r, splat(1.0f / 120));
  p = fma(p, r, splat(1.0f / 24));
  p = fma(p, r, splat(1.0f / 6));
  p = fma(p, r, splat(0.5f));
  p = fma(p, r, splat(1.0f));
  p = fma(p, r, splat(1.0f));
  const vi e = ((vi)t - 0x4b400000 + 127) << 23;
  const vf y = p * (vf)e;
  const vf high = x > splat(88.f) ? splat(__builtin_inff()) : y;
  return x < splat(-87.3f) ? vf{} : high;
}
SGL_INLINE vf tanh_v(vf x) {
  const vf e = exp_v(x * 2.0f);
  return 1.0f - 2.0f / (e + 1.0f);
}

}  // namespace SGL_NS
