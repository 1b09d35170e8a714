// How a packer reads a format: one block of 32 inputs at a time, as unsigned codes with one or two scales and minimums.
#pragma once
#include <stdint.h>

struct Block {
  uint8_t q[32];
  float d[2];  // sub == 1 uses d[0], m[0] only
  float m[2];
};

struct Source {
  const uint8_t* raw;
  int64_t row_bytes;
  const float* scales;  // int8: [n_out]; int4 and f8: [n_out, groups]
  const float* zeros;   // int4: [n_out, groups]
  int64_t n_in, group, groups;
};

using ReadBlock = void (*)(const Source& s, int64_t row, int64_t block, Block& out);

void read_q2_k(const Source&, int64_t, int64_t, Block&);
void read_q3_k(const Source&, int64_t, int64_t, Block&);
void read_q4_k(const Source&, int64_t, int64_t, Block&);
void read_q5_k(const Source&, int64_t, int64_t, Block&);
void read_q6_k(const Source&, int64_t, int64_t, Block&);
