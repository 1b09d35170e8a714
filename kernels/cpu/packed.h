// The packed weight buffer: header, enumerations and the arithmetic of its layout. Shared by packers, drivers and kernels.
#pragma once
#include <stdint.h>

// Weight formats as the caller names them (the values are part of the C interface and of files on disk: never renumber).
enum SglFormat : int32_t {
  SGL_F32 = 0, SGL_F16 = 1, SGL_BF16 = 2, SGL_F8E4M3 = 3,
  SGL_Q4_0 = 10, SGL_Q4_1 = 11, SGL_Q5_0 = 12, SGL_Q5_1 = 13, SGL_Q8_0 = 14,
  SGL_Q2_K = 20, SGL_Q3_K = 21, SGL_Q4_K = 22, SGL_Q5_K = 23, SGL_Q6_K = 24, SGL_IQ4_NL = 25,
  SGL_INT8_CHANNEL = 30, SGL_INT4_GROUP = 31,
};

// A packed matrix is [header 256 B][tile 0][tile 1]...; a tile holds 16 output rows and all inputs.
//
// Integer tiles: weight = d * q + m with q unsigned, per block of 32 inputs (sub = 1) or per half block of 16 (sub = 2).
//
//   block b of a tile:  codes | d: sub x 16 scales | m: sub x 16 minimums (only has_min)
//
//   code_bits 8 (also 5 and 6, which say how large a code gets): 8 groups of 4 inputs, 64 bytes a group
//     byte 64*g + 4*r + i     = q[row r][input 4*g + i]              so that one 32-bit lane is one row, four inputs:
//     |r0 i0 i1 i2 i3|r1 i0 i1 i2 i3| ... |r15 i0 i1 i2 i3|          the operand of maddubs / dpbusd / an AMX B tile row
//   code_bits 4: 4 chunks of 64 bytes; chunk j has group j in its low and group j + 4 in its high nibbles
//
// Where one scale serves more than a block (gshift > 0: groups of 64, 128, a whole row) the scales lie behind all blocks:
//   tile = codes of all blocks | d of all groups | m of all groups. The kernels only see offsets and strides.
//
// Float tiles: [input][16 rows] of 4, 2 or 1 bytes; f8 tiles end with f32 scales [group][16].
struct PackedHeader {
  char magic[8];         // "SGLPACK2"
  int32_t format;        // SglFormat
  int32_t is_int;        // 1: codes and scales, 0: floats
  int32_t code_bits;     // 4, 5, 6, 8; floats: 8, 16, 32
  int32_t sub;           // scales per block of 32 inputs: 1 or 2
  int32_t scale_f32;     // scales are f32 (else f16)
  int32_t zero;          // m = -zero * d when has_min is 0
  int32_t has_min;
  int32_t gshift;        // scale index = block >> gshift
  int64_t n_out, n_in;   // true sizes
  int64_t k_pad;         // n_in rounded up to 32
  int64_t blocks;        // k_pad / 32
  int64_t tiles;         // ceil(n_out / 16)
  int64_t tile_bytes, block_bytes;
  int64_t d_off, d_stride, m_off, m_stride;  // from the tile's start; bytes
  int64_t group;         // inputs per scale as the caller gave it (0: the format's own)
  int64_t total_bytes;   // header included
  char pad[64];
};
static_assert(sizeof(PackedHeader) == 8 + 4 * 8 + 8 * 13 + 64, "header layout");

constexpr int kTileRows = 16;
constexpr int64_t kHeaderBytes = 256;

static inline const uint8_t* packed_tile(const PackedHeader* h, int64_t tile) {
  return reinterpret_cast<const uint8_t*>(h) + kHeaderBytes + tile * h->tile_bytes;
}
