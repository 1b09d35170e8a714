// f16 and f32 bit conversions for the packers (exact; no instruction beyond the baseline).
#pragma once
#include <stdint.h>
#include <string.h>

static inline float half_to_float(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000) << 16, mag = h & 0x7fff;
  uint32_t u = mag << 13;
  float f;
  if (mag >= 0x7c00) u |= 0x7f800000;
  memcpy(&f, &u, 4);
  if (mag < 0x7c00) f *= 0x1p112f;  // rebias; also normalizes subnormals
  memcpy(&u, &f, 4);
  u |= sign;
  memcpy(&f, &u, 4);
  return f;
}

static inline uint16_t float_to_half(float x) {  // round to nearest even
  uint32_t u;
  memcpy(&u, &x, 4);
  const uint32_t sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000) return uint16_t(sign | 0x7e00);
  if (a >= 0x477ff000) return uint16_t(sign | 0x7c00);
  if (a < 0x38800000) {
    float f;
    memcpy(&f, &a, 4);
    f += 0.5f;
    memcpy(&u, &f, 4);
    return uint16_t(sign | (u & 0x7fff));
  }
  return uint16_t(sign | ((a - 0x38000000 + 0xfff + ((a >> 13) & 1)) >> 13));
}

static inline uint16_t read16(const uint8_t* p) { uint16_t v; memcpy(&v, p, 2); return v; }
static inline uint32_t read32(const uint8_t* p) { uint32_t v; memcpy(&v, p, 4); return v; }
static inline float read_half(const uint8_t* p) { return half_to_float(read16(p)); }
