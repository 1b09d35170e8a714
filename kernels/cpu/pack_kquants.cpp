// Readers of the k-quant super-blocks (256 inputs; published block layouts of the GGUF format).
#include "half.h"
#include "pack.h"

// scales[16] (4-bit scale, 4-bit minimum), qs[64] of 2-bit codes, f16 d, f16 dmin
void read_q2_k(const Source& s, int64_t row, int64_t block, Block& o) {
  const uint8_t* p = s.raw + row * s.row_bytes + block / 8 * 84;
  const int b = int(block % 8);
  const float d = read_half(p + 80), dmin = read_half(p + 82);
  const uint8_t* qs = p + 16 + (b / 4) * 32;
  for (int i = 0; i < 32; i++) o.q[i] = (qs[i] >> (2 * (b % 4))) & 3;
  for (int h = 0; h < 2; h++) {
    o.d[h] = d * float(p[2 * b + h] & 15);
    o.m[h] = -(dmin * float(p[2 * b + h] >> 4));
  }
}

// hmask[32] third bits, qs[64] low two bits, scales[12] (16 x 6 bits, offset 32), f16 d; value d * (sc - 32) * (q - 4)
void read_q3_k(const Source& s, int64_t row, int64_t block, Block& o) {
  const uint8_t* p = s.raw + row * s.row_bytes + block / 8 * 110;
  const int b = int(block % 8);
  const uint8_t *hmask = p, *qs = p + 32 + (b / 4) * 32, *sc = p + 96;
  const float d = read_half(p + 108);
  for (int i = 0; i < 32; i++) o.q[i] = uint8_t(((qs[i] >> (2 * (b % 4))) & 3) | (((hmask[i] >> b) & 1) << 2));
  for (int h = 0; h < 2; h++) {
    const int i = 2 * b + h;
    const int low = i < 8 ? sc[i] & 15 : sc[i - 8] >> 4, high = (sc[8 + i % 4] >> (2 * (i / 4))) & 3;
    o.d[h] = d * float((low | (high << 4)) - 32);
    o.m[h] = 0;
  }
}

// The 8 pairs of 6-bit scale and minimum of q4_k and q5_k in 12 bytes.
static void scale_min(const uint8_t* q, int j, int& sc, int& mn) {
  if (j < 4) {
    sc = q[j] & 63;
    mn = q[j + 4] & 63;
  } else {
    sc = (q[j + 4] & 15) | ((q[j - 4] >> 6) << 4);
    mn = (q[j + 4] >> 4) | ((q[j] >> 6) << 4);
  }
}

void read_q4_k(const Source& s, int64_t row, int64_t block, Block& o) {
  const uint8_t* p = s.raw + row * s.row_bytes + block / 8 * 144;
  const int b = int(block % 8);
  int sc, mn;
  scale_min(p + 4, b, sc, mn);
  const uint8_t* qs = p + 16 + (b / 2) * 32;
  for (int i = 0; i < 32; i++) o.q[i] = b % 2 ? qs[i] >> 4 : qs[i] & 15;
  o.d[0] = o.d[1] = read_half(p) * float(sc);
  o.m[0] = o.m[1] = -(read_half(p + 2) * float(mn));
}

void read_q5_k(const Source& s, int64_t row, int64_t block, Block& o) {
  const uint8_t* p = s.raw + row * s.row_bytes + block / 8 * 176;
  const int b = int(block % 8);
  int sc, mn;
  scale_min(p + 4, b, sc, mn);
  const uint8_t *qh = p + 16, *qs = p + 48 + (b / 2) * 32;
  for (int i = 0; i < 32; i++) o.q[i] = uint8_t((b % 2 ? qs[i] >> 4 : qs[i] & 15) | (((qh[i] >> b) & 1) << 4));
  o.d[0] = o.d[1] = read_half(p) * float(sc);
  o.m[0] = o.m[1] = -(read_half(p + 2) * float(mn));
}

// ql[128] low nibbles, qh[64] high two bits, scales[16] signed, f16 d; value d * sc * (q - 32)
void read_q6_k(const Source& s, int64_t row, int64_t block, Block& o) {
  const uint8_t* p = s.raw + row * s.row_bytes + block / 8 * 210;
  const int b = int(block % 8), n = b / 4, j = b % 4;
  const uint8_t *ql = p + 64 * n + 32 * (j % 2), *qh = p + 128 + 32 * n;
  const float d = read_half(p + 208);
  for (int i = 0; i < 32; i++) o.q[i] = uint8_t((j < 2 ? ql[i] & 15 : ql[i] >> 4) | (((qh[i] >> (2 * j)) & 3) << 4));
  for (int h = 0; h < 2; h++) {
    o.d[h] = d * float(int8_t(p[192 + 2 * b + h]));
    o.m[h] = 0;
  }
}
