// Integer tiles on AMX: 16 tokens x 16 rows x 32 inputs a step. A packed block is a B tile as it lies (8 rows of 64 bytes: four
// inputs of each of 16 output rows); 4-bit codes are spread to bytes once per call, for all tokens.
//
//   tdpbsud: C[16 tokens][16 rows] (i32) = A[16][32 bytes, signed] . B[8][64 bytes, unsigned]        about 16 cycles
//   then per token: load + convert, scale, multiply-add (+ multiply-add for minimums)                 about 32 cycles
//
// The next four blocks are under way while the last four are scaled: a stored tile is not forwarded to a load, it has to reach
// the cache first. The sums of a block are exact integers
// and the f32 chain is that of linear_int.h: the bits are those of the VNNI kernel, which also takes the tokens left over.
#pragma once
#include "tiles_bf16.h"

namespace SGL_NS {

static const uint8_t* code_bytes(const TileCall& c) {
  const PackedHeader* h = c.h;
  uint8_t* out = static_cast<uint8_t*>(thread_scratch(1, h->blocks * 512));
  for (int64_t b = 0; b < h->blocks; b++)
    for (int j = 0; j < 4; j++) {
      const iv w = i_load(c.tile + b * h->block_bytes + j * 64);
      _mm512_store_si512(out + b * 512 + j * 64, i_lo4(w));
      _mm512_store_si512(out + b * 512 + (j + 4) * 64, i_hi4(w));
    }
  return out;
}

// Adds block b's 16 x 16 sums to the tokens' accumulators.
SGL_INLINE void add_block(const TileCall& c, const int32_t* sums, int64_t b, const float* d, const float* s, bool use_min, vf (&acc)[16]) {
  const PackedHeader* h = c.h;
  const uint8_t* dp = c.tile + h->d_off + (b >> h->gshift) * h->d_stride;
  const vf dw = h->scale_f32 ? load(reinterpret_cast<const float*>(dp)) : load_f16(reinterpret_cast<const uint16_t*>(dp));
  SGL_EACH(m, 16) acc[m] = fma((vf)_mm512_cvtepi32_ps(_mm512_load_si512(sums + m * 16)), dw * d[m * c.ldd + b], acc[m]);
  if (!use_min) return;
  vf mw = dw * -float(h->zero);
  if (h->has_min) {
    const uint8_t* mp = c.tile + h->m_off + (b >> h->gshift) * h->m_stride;
    mw = h->scale_f32 ? load(reinterpret_cast<const float*>(mp)) : load_f16(reinterpret_cast<const uint16_t*>(mp));
  }
  SGL_EACH(m, 16) acc[m] = fma(mw, splat(s[m * c.lds + b]), acc[m]);
}

#define SGL_BLOCK(C, A, B, i)                        \
  if (b + (i) < end) {                               \
    _tile_zero(C);                                   \
    _tile_loadd(A, q + (b + (i)) * 32, ldq);         \
    _tile_loadd(B, w + (b + (i)) * w_step, 64);      \
    _tile_dpbsud(C, A, B);                           \
    _tile_stored(C, sums[i], 64);                    \
  }
// Starts blocks b .. b + 3 (those below end): their sums arrive in sums[0..3].
SGL_INLINE void tile_blocks(const int8_t* q, int64_t ldq, const uint8_t* w, int64_t w_step, int64_t b, int64_t end, int32_t (*sums)[256]) {
  SGL_BLOCK(0, 4, 6, 0)
  SGL_BLOCK(1, 5, 7, 1)
  SGL_BLOCK(2, 4, 6, 2)
  SGL_BLOCK(3, 5, 7, 3)
}

// Below, dpbusd is faster: 12 against 15 ms for the linear layers of a step of 16 rows, 20 against 22 for 32; 40 against 37 for 64.
constexpr int64_t kAmxRows = 48;

static void tile_int_amx(const TileCall& c) {
  const PackedHeader* h = c.h;
  if (c.T < kAmxRows || h->sub != 1) return tile_int(c);
  TileConfig config;
  for (int t = 0; t < 4; t++) config.column_bytes[t] = 64, config.rows[t] = 16;  // C
  for (int t = 4; t < 6; t++) config.column_bytes[t] = 32, config.rows[t] = 16;  // A: tokens
  for (int t = 6; t < 8; t++) config.column_bytes[t] = 64, config.rows[t] = 8;   // B: weights
  _tile_loadconfig(&config);
  const uint8_t* w = h->code_bits == 4 ? code_bytes(c) : c.tile;
  const int64_t w_step = h->code_bits == 4 ? 512 : h->block_bytes;
  const bool use_min = h->has_min || h->zero != 0;
  int64_t t = 0;
  for (; t + 16 <= c.T; t += 16) {
    const int8_t* q = c.q + t * c.ldq;
    const float* d = c.d + t * c.ldd;
    const float* s = c.s + t * c.lds;
    vf acc[16];
    SGL_EACH(m, 16) acc[m] = vf{};
    alignas(64) int32_t sums[2][4][256];
    tile_blocks(q, c.ldq, w, w_step, 0, h->blocks, sums[0]);
    for (int64_t b = 0, turn = 0; b < h->blocks; b += 4, turn ^= 1) {
      tile_blocks(q, c.ldq, w, w_step, b + 4, h->blocks, sums[turn ^ 1]);
      for (int64_t i = 0; i < 4 && b + i < h->blocks; i++) add_block(c, sums[turn][i], b + i, d, s, use_min, acc);
    }
    vf rows[16][NV];
    SGL_EACH(m, 16) rows[m][0] = acc[m];
    store_rows<16>(c, t, rows);
  }
  _tile_release();
  if (t == c.T) return;
  TileCall rest = c;
  rest.q += t * c.ldq;
  rest.d += t * c.ldd;
  rest.s += t * c.lds;
  rest.out += t * c.ldo;
  rest.T -= t;
  tile_int(rest);
}

}  // namespace SGL_NS
