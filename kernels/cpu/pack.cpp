// Weights into register tiles, once at load. Every format keeps its exact values; packed.h draws the layout.
#include <stdio.h>

#include "api.h"
#include "half.h"
#include "kernels.h"
#include "pack.h"
#include "pool.h"

namespace {

void nibbles(const uint8_t* qs, uint8_t* q) {
  for (int i = 0; i < 16; i++) {
    q[i] = qs[i] & 15;
    q[i + 16] = qs[i] >> 4;
  }
}
void read_q4_0(const Source& s, int64_t row, int64_t block, Block& o) {
  const uint8_t* p = s.raw + row * s.row_bytes + block * 18;
  nibbles(p + 2, o.q);
  o.d[0] = read_half(p);
}
void read_q4_1(const Source& s, int64_t row, int64_t block, Block& o) {
  const uint8_t* p = s.raw + row * s.row_bytes + block * 20;
  nibbles(p + 4, o.q);
  o.d[0] = read_half(p);
  o.m[0] = read_half(p + 2);
}
void fifth_bits(uint32_t qh, uint8_t* q) {
  for (int i = 0; i < 32; i++) q[i] = uint8_t(q[i] | (((qh >> i) & 1) << 4));
}
void read_q5_0(const Source& s, int64_t row, int64_t block, Block& o) {
  const uint8_t* p = s.raw + row * s.row_bytes + block * 22;
  nibbles(p + 6, o.q);
  fifth_bits(read32(p + 2), o.q);
  o.d[0] = read_half(p);
}
void read_q5_1(const Source& s, int64_t row, int64_t block, Block& o) {
  const uint8_t* p = s.raw + row * s.row_bytes + block * 24;
  nibbles(p + 8, o.q);
  fifth_bits(read32(p + 4), o.q);
  o.d[0] = read_half(p);
  o.m[0] = read_half(p + 2);
}
void read_q8_0(const Source& s, int64_t row, int64_t block, Block& o) {
  const uint8_t* p = s.raw + row * s.row_bytes + block * 34;
  for (int i = 0; i < 32; i++) o.q[i] = uint8_t(p[2 + i] ^ 0x80);
  o.d[0] = read_half(p);
}
void read_iq4_nl(const Source& s, int64_t row, int64_t block, Block& o) {
  static const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  const uint8_t* p = s.raw + row * s.row_bytes + block * 18;
  nibbles(p + 2, o.q);
  for (int i = 0; i < 32; i++) o.q[i] = uint8_t(values[o.q[i]] ^ 0x80);
  o.d[0] = read_half(p);
}
void read_int8(const Source& s, int64_t row, int64_t block, Block& o) {
  const uint8_t* p = s.raw + row * s.row_bytes + block * 32;
  for (int i = 0; i < 32; i++) o.q[i] = block * 32 + i < s.n_in ? uint8_t(p[i] ^ 0x80) : 128;
  o.d[0] = s.scales[row];
}
void read_int4(const Source& s, int64_t row, int64_t block, Block& o) {
  const uint8_t* p = s.raw + row * s.row_bytes + block * 32;
  for (int i = 0; i < 32; i++) o.q[i] = block * 32 + i < s.n_in ? p[i] & 15 : 0;
  const int64_t g = row * s.groups + block * 32 / s.group;
  o.d[0] = s.scales[g];
  o.m[0] = -(s.scales[g] * s.zeros[g]);
}

struct Format {
  int32_t id;
  int32_t is_int, code_bits, sub, scale_f32, zero, has_min;
  int64_t block_in, block_bytes;  // of the raw format: inputs and bytes
  ReadBlock read;
  const char* name;
};
const Format kFormats[] = {
    {SGL_F32, 0, 32, 1, 1, 0, 0, 1, 4, nullptr, "F32"},
    {SGL_F16, 0, 16, 1, 1, 0, 0, 1, 2, nullptr, "F16"},
    {SGL_BF16, 0, 16, 1, 1, 0, 0, 1, 2, nullptr, "BF16"},
    {SGL_F8E4M3, 0, 8, 1, 1, 0, 0, 1, 1, nullptr, "F8_E4M3"},
    {SGL_Q4_0, 1, 4, 1, 0, 8, 0, 32, 18, read_q4_0, "Q4_0"},
    {SGL_Q4_1, 1, 4, 1, 0, 0, 1, 32, 20, read_q4_1, "Q4_1"},
    {SGL_Q5_0, 1, 5, 1, 0, 16, 0, 32, 22, read_q5_0, "Q5_0"},
    {SGL_Q5_1, 1, 5, 1, 0, 0, 1, 32, 24, read_q5_1, "Q5_1"},
    {SGL_Q8_0, 1, 8, 1, 0, 128, 0, 32, 34, read_q8_0, "Q8_0"},
    {SGL_Q2_K, 1, 4, 2, 1, 0, 1, 256, 84, read_q2_k, "Q2_K"},
    {SGL_Q3_K, 1, 4, 2, 1, 4, 0, 256, 110, read_q3_k, "Q3_K"},
    {SGL_Q4_K, 1, 4, 1, 1, 0, 1, 256, 144, read_q4_k, "Q4_K"},
    {SGL_Q5_K, 1, 5, 1, 1, 0, 1, 256, 176, read_q5_k, "Q5_K"},
    {SGL_Q6_K, 1, 6, 2, 1, 32, 0, 256, 210, read_q6_k, "Q6_K"},
    {SGL_IQ4_NL, 1, 8, 1, 0, 128, 0, 32, 18, read_iq4_nl, "IQ4_NL"},
    {SGL_INT8_CHANNEL, 1, 8, 1, 1, 128, 0, 1, 1, read_int8, "INT8_CHANNEL"},
    {SGL_INT4_GROUP, 1, 4, 1, 1, 0, 1, 1, 1, read_int4, "INT4_GROUP"},
};

const Format* find(int32_t id) {
  for (const Format& f : kFormats)
    if (f.id == id) return &f;
  return nullptr;
}

int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

int layout(int32_t id, int64_t n_out, int64_t n_in, int64_t group, PackedHeader& h) {
  const Format* f = find(id);
  if (!f) return fail("weight format %d is unknown", id);
  if (n_out < 1 || n_in < 1) return fail("a weight of %lld x %lld has no elements", (long long)n_out, (long long)n_in);
  if (n_in % f->block_in) return fail("%s needs the number of inputs to be a multiple of %lld, not %lld", f->name, (long long)f->block_in, (long long)n_in);
  memset(&h, 0, sizeof h);
  memcpy(h.magic, "SGLPACK2", 8);
  h.format = id;
  h.is_int = f->is_int;
  h.code_bits = f->code_bits;
  h.sub = f->sub;
  h.scale_f32 = f->scale_f32;
  h.zero = f->zero;
  h.has_min = f->has_min;
  h.n_out = n_out;
  h.n_in = n_in;
  h.k_pad = round_up(n_in, 32);
  h.blocks = h.k_pad / 32;
  h.tiles = (n_out + 15) / 16;
  h.group = group;
  const bool grouped = id == SGL_INT8_CHANNEL || id == SGL_INT4_GROUP || id == SGL_F8E4M3;
  int64_t groups = h.blocks;
  if (grouped) {
    if (id == SGL_INT8_CHANNEL || group <= 0 || group >= n_in) {
      h.gshift = 40;  // one scale a row
      h.group = h.k_pad;
      groups = 1;
    } else {
      int shift = 0;
      while ((int64_t(32) << shift) < group) shift++;
      if ((int64_t(32) << shift) != group) return fail("the group size must be 32 times a power of two (or the whole row), not %lld", (long long)group);
      h.gshift = shift;
      groups = (n_in + group - 1) / group;
    }
  }
  const int64_t scale_bytes = f->sub * 16 * (f->scale_f32 ? 4 : 2);
  if (!f->is_int) {
    h.tile_bytes = h.n_in * 16 * f->code_bits / 8;
    h.block_bytes = 32 * 16 * f->code_bits / 8;
    if (id == SGL_F8E4M3) {
      h.d_off = round_up(h.tile_bytes, 64);
      h.d_stride = 64;
      h.tile_bytes = h.d_off + groups * 64;
    }
  } else {
    const int64_t codes = f->code_bits == 4 ? 256 : 512;
    if (grouped) {
      h.block_bytes = codes;
      h.d_off = h.blocks * codes;
      h.d_stride = h.m_stride = scale_bytes;
      h.m_off = h.d_off + groups * scale_bytes;
      h.tile_bytes = h.m_off + (f->has_min ? groups * scale_bytes : 0);
    } else {
      h.block_bytes = codes + scale_bytes * (f->has_min ? 2 : 1);
      h.d_off = codes;
      h.m_off = codes + scale_bytes;
      h.d_stride = h.m_stride = h.block_bytes;
      h.tile_bytes = h.blocks * h.block_bytes;
    }
  }
  h.tile_bytes = round_up(h.tile_bytes, 64);
  h.total_bytes = kHeaderBytes + h.tiles * h.tile_bytes;
  return 0;
}

void put_scales(uint8_t* p, int r, int sub, bool f32, const float* v) {
  for (int i = 0; i < sub; i++) {
    if (f32) {
      memcpy(p + i * 64 + r * 4, v + i, 4);
    } else {
      const uint16_t h = float_to_half(v[i]);
      memcpy(p + i * 32 + r * 2, &h, 2);
    }
  }
}

void pack_tile(const PackedHeader& h, const Format& f, const Source& s, int64_t t, uint8_t* tile) {
  memset(tile, 0, size_t(h.tile_bytes));
  const int64_t first = t * 16, rows = h.n_out - first < 16 ? h.n_out - first : 16;
  if (!f.is_int) {
    const int64_t size = f.code_bits / 8;
    for (int64_t r = 0; r < rows; r++) {
      const uint8_t* src = s.raw + (first + r) * s.row_bytes;
      for (int64_t k = 0; k < h.n_in; k++) memcpy(tile + (k * 16 + r) * size, src + k * size, size_t(size));
      for (int64_t g = 0; f.id == SGL_F8E4M3 && g < s.groups; g++) {
        const float v = s.scales ? s.scales[(first + r) * s.groups + g] : 1.f;
        memcpy(tile + h.d_off + g * 64 + r * 4, &v, 4);
      }
    }
    return;
  }
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t b = 0; b < h.blocks; b++) {
      Block o;
      f.read(s, first + r, b, o);
      uint8_t* p = tile + b * h.block_bytes;
      // A lane of four inputs is one 32-bit store.
      for (int g = 0; g < (h.code_bits == 4 ? 4 : 8); g++) {
        uint32_t lane = read32(o.q + 4 * g);
        if (h.code_bits == 4) lane |= read32(o.q + 16 + 4 * g) << 4;
        memcpy(p + g * 64 + r * 4, &lane, 4);
      }
      put_scales(tile + h.d_off + (b >> h.gshift) * h.d_stride, int(r), h.sub, h.scale_f32, o.d);
      if (h.has_min) put_scales(tile + h.m_off + (b >> h.gshift) * h.m_stride, int(r), h.sub, h.scale_f32, o.m);
    }
  }
}

}  // namespace

// Bytes of the packed buffer, or -1. group: inputs per scale for INT4_GROUP and F8_E4M3 (0: one a row).
SGL_API int64_t sgl_packed_bytes(int32_t format, int64_t n_out, int64_t n_in, int64_t group) {
  PackedHeader h;
  return layout(format, n_out, n_in, group, h) ? -1 : h.total_bytes;
}

// Bytes of one raw row, or -1.
SGL_API int64_t sgl_raw_row_bytes(int32_t format, int64_t n_in) {
  const Format* f = find(format);
  if (!f || n_in % f->block_in) return fail("format %d has no rows of %lld inputs", format, (long long)n_in);
  return n_in / f->block_in * f->block_bytes;
}

SGL_API int sgl_pack(int32_t format, const void* raw, const float* scales, const float* zeros, int64_t n_out, int64_t n_in,
                     int64_t group, void* dst) {
  PackedHeader h;
  if (layout(format, n_out, n_in, group, h)) return -1;
  const Format& f = *find(format);
  if ((format == SGL_INT8_CHANNEL || format == SGL_INT4_GROUP) && !scales) return fail("%s needs scales", f.name);
  if (format == SGL_INT4_GROUP && !zeros) return fail("INT4_GROUP needs zero points");
  if (reinterpret_cast<uintptr_t>(dst) % 64) return fail("the packed buffer must be aligned to 64 bytes");
  uint8_t* out = static_cast<uint8_t*>(dst);
  memset(out, 0, size_t(kHeaderBytes));
  memcpy(out, &h, sizeof h);
  Source s{static_cast<const uint8_t*>(raw), n_in / f.block_in * f.block_bytes, scales, zeros, n_in, h.group, 0};
  s.groups = h.gshift == 40 ? 1 : (n_in + (h.group > 0 ? h.group : 1) - 1) / (h.group > 0 ? h.group : 1);
  parallel_for(h.tiles, [&](int64_t t) { pack_tile(h, f, s, t, out + kHeaderBytes + t * h.tile_bytes); });
  return 0;
}

// Checks a packed buffer that came from a file: 0 when it is one and has `bytes` bytes.
SGL_API int sgl_packed_check(const void* packed, int64_t bytes) {
  const PackedHeader* h = static_cast<const PackedHeader*>(packed);
  if (bytes < kHeaderBytes || memcmp(h->magic, "SGLPACK2", 8)) return fail("not a packed weight of this version: pack it again");
  PackedHeader want;
  if (layout(h->format, h->n_out, h->n_in, h->group, want)) return -1;
  if (memcmp(&want, h, sizeof want) || h->total_bytes != bytes)
    return fail("a packed weight of %lld bytes is damaged or cut short (%lld bytes here): pack it again", (long long)h->total_bytes, (long long)bytes);
  return 0;
}
