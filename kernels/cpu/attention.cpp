// Paged attention over a ragged batch: cuts it into (request, query block, kv head) items, and those into key segments when
// there are few of them (a decode step of one stream); segments are merged in order, so the cut never changes a bit.
// Decode rows whose first segments lie in the same pages (a shared prefix) go through those together: the keys are read,
// converted and transposed once for all of them (cascade); again the same sums in the same order.
#include <math.h>

#include <vector>

#include "api.h"
#include "kernels.h"
#include "pool.h"

struct AttentionArgs {
  const float* q; int64_t ldq;
  float* out; int64_t ldo;
  const void* k_cache; const void* v_cache;
  int64_t slot_stride_k, slot_stride_v;     // elements from one slot to the next
  int64_t head_stride_k, head_stride_v;     // elements from one kv head to the next
  const float* k_scale; const float* v_scale;
  const int32_t* page_table; int64_t ldp;
  const int32_t* query_lens; const int32_t* context_lens;
  const float* sinks;
  int64_t T, R, heads, kv_heads, dim, dim_v, page_size, window;
  int32_t kv_type, causal;
  float scale, softcap;
  // Requests from here on are computed in bf16 tiles where the instruction set has them, and those before it too where the cache is bf16
  // (whose keys are tiles as they lie); -1: none.
  int64_t bf16_from;
};

namespace {

struct Item {
  int64_t request, token, first, tokens;  // row of the batch; index of the first token in it and in the request's chunk
  int64_t kv_head, kv_heads, at_once;     // the first kv head, how many, and how many of them a kernel call takes
  int64_t key_begin, key_end;
  int64_t segments, partial;              // partial: where its segments' results lie when it is split
  const float* shared;                    // results of the shared segments before key_begin, by kv head: m[G] l[G] acc[G][dim_v] each
  int64_t shared_segments;
};

// Query rows of a block: 96 rows of 64 floats, their sums and the key block stay in L1 + L2. In bf16 tiles a segment of keys is
// spread once for all rows, so more of them pay.
constexpr int64_t kRows = 96, kTileRowsBf16 = 192;

bool in_tiles(const Kernels* k, const AttentionArgs& a, int64_t request) {
  return k->attend_segment_bf16 && a.bf16_from >= 0 && (a.kv_type == KV_BF16 || request >= a.bf16_from);
}

// Whether so many rows of a kv head read the cache as it lies, all heads of an item at once.
bool as_it_lies(const Kernels* k, const AttentionArgs& a, int64_t request, int64_t rows) {
  return rows <= kAttnFewRows && a.kv_type == KV_BF16 && in_tiles(k, a, request);
}

int64_t kv_bytes(int32_t type) { return type == KV_F32 ? 4 : type <= KV_BF16 ? 2 : 1; }

struct Work {  // one thread's buffers
  float *q, *m, *l, *acc, *M, *L, *A, *scratch;
  int64_t* pos;
};

Work work_buffers(const AttentionArgs& a, int64_t rows) {
  const int64_t r16 = (rows + 15) / 16 * 16;
  const int64_t floats = r16 * a.dim + 4 * r16 + 2 * r16 * a.dim_v + kAttnKeys * (a.dim + a.dim_v + r16);
  float* p = static_cast<float*>(thread_scratch(2, floats * 4 + r16 * 8));
  Work w;
  w.q = p; p += r16 * a.dim;
  w.acc = p; p += r16 * a.dim_v;
  w.A = p; p += r16 * a.dim_v;
  w.scratch = p; p += kAttnKeys * (a.dim + a.dim_v + r16);
  w.m = p; p += r16;
  w.l = p; p += r16;
  w.M = p; p += r16;
  w.L = p; p += r16;
  w.pos = reinterpret_cast<int64_t*>(p);
  return w;
}

void clear(float* m, float* l, float* acc, int64_t rows, int64_t dim) {
  for (int64_t i = 0; i < rows; i++) {
    m[i] = -INFINITY;
    l[i] = 0;
  }
  memset(acc, 0, size_t(rows * dim) * 4);
}

// The buffers of the h-th kv head of an item: its rows lie behind those of the heads before it.
Work of_head(const AttentionArgs& a, const Item& it, const Work& w, int64_t h) {
  const int64_t rows = h * it.tokens * (a.heads / a.kv_heads);
  Work at = w;
  at.q += rows * a.dim;
  at.M += rows;
  at.L += rows;
  at.A += rows * a.dim_v;
  at.pos += rows;
  return at;
}

void gather_queries(const Kernels* k, const AttentionArgs& a, const Item& it, int64_t kv_head, const Work& w) {
  const int64_t G = a.heads / a.kv_heads;
  const float scale = in_tiles(k, a, it.request) ? a.scale * 1.44269504088896f : a.scale;  // 2^x there
  for (int64_t t = 0; t < it.tokens; t++)
    for (int64_t g = 0; g < G; g++) {
      const float* src = a.q + (it.token + t) * a.ldq + (kv_head * G + g) * a.dim;
      float* dst = w.q + (t * G + g) * a.dim;
      for (int64_t i = 0; i < a.dim; i++) dst[i] = src[i] * scale;
      const int64_t context = a.context_lens[it.request];
      w.pos[t * G + g] = a.causal ? context + it.first + t : context + a.query_lens[it.request] - 1;
    }
}

// Segment of keys [begin, end) of the request whose pages these are, for the rows of `heads` kv heads gathered in w.
void keys_segment(const Kernels* k, const AttentionArgs& a, const Work& w, int64_t request, int64_t kv_head, int64_t heads, int64_t begin,
                  int64_t end, int64_t rows, float* m, float* l, float* acc) {
  clear(m, l, acc, rows, a.dim_v);
  AttnCall c{};
  c.q = w.q;
  c.rows = rows;
  c.kv_heads = heads;
  c.head_stride_k = a.head_stride_k;
  c.head_stride_v = a.head_stride_v;
  c.dim = a.dim;
  c.dim_v = a.dim_v;
  c.k = static_cast<const uint8_t*>(a.k_cache) + kv_head * a.head_stride_k * kv_bytes(a.kv_type);
  c.v = static_cast<const uint8_t*>(a.v_cache) + kv_head * a.head_stride_v * kv_bytes(a.kv_type);
  c.stride_k = a.slot_stride_k;
  c.stride_v = a.slot_stride_v;
  const bool per_slot = a.kv_type == KV_INT8;
  c.k_scale = a.k_scale ? a.k_scale + (per_slot ? kv_head : 0) : nullptr;
  c.v_scale = a.v_scale ? a.v_scale + (per_slot ? kv_head : 0) : nullptr;
  c.stride_scale = a.kv_heads;
  c.kv = KvType(a.kv_type);
  c.pages = a.page_table + request * a.ldp;
  c.page_size = a.page_size;
  c.key_begin = begin;
  c.key_end = end;
  c.row_pos = w.pos;
  c.window = a.window;
  c.softcap = a.softcap;
  c.scratch = w.scratch;
  c.m = m;
  c.l = l;
  c.acc = acc;
  if (as_it_lies(k, a, request, rows / heads)) k->attend_few_bf16(c);
  else if (in_tiles(k, a, request)) k->attend_segment_bf16(c);
  else k->attend_segment(c);
}

// Segment s of an item for the kv heads from `head` of it on that are taken at once.
void segment(const Kernels* k, const AttentionArgs& a, const Item& it, int64_t head, const Work& w, int64_t s, float* m, float* l,
             float* acc) {
  const int64_t begin = it.key_begin + s * kAttnSegment, end = begin + kAttnSegment < it.key_end ? begin + kAttnSegment : it.key_end;
  keys_segment(k, a, w, it.request, it.kv_head + head, it.at_once, begin, end, it.at_once * it.tokens * (a.heads / a.kv_heads), m, l, acc);
}

// Running sums of an item: empty, or what its shared segments gave.
void start_sums(const Kernels* k, const AttentionArgs& a, const Item& it, int64_t h, const Work& w) {
  const int64_t G = a.heads / a.kv_heads;
  clear(w.M, w.L, w.A, it.tokens * G, a.dim_v);
  const float* p = it.shared + h * it.shared_segments * G * (2 + a.dim_v);
  for (int64_t s = 0; s < it.shared_segments; s++, p += G * (2 + a.dim_v))
    k->attend_merge(p, p + G, p + 2 * G, G, a.dim_v, w.M, w.L, w.A);
}

// Requests of this step that share their first segments.
struct Group {
  int64_t leader, segments, offset;  // offset: of its results, in floats
  std::vector<int64_t> members;
};

// Decode rows (their only query is at `token`) grouped by common leading pages, in whole segments.
std::vector<Group> shared_prefixes(const Kernels* k, const AttentionArgs& a) {
  std::vector<Group> groups;
  if (a.R < 2 || !a.causal || a.window > 0) return groups;
  for (int64_t r = 0; r < a.R; r++) {
    const int64_t full = a.context_lens[r] / kAttnSegment;
    if (a.query_lens[r] != 1 || full < 1) continue;
    const int32_t* mine = a.page_table + r * a.ldp;
    bool joined = false;
    for (Group& g : groups) {
      const int32_t* theirs = a.page_table + g.leader * a.ldp;
      const int64_t most = (full < g.segments ? full : g.segments) * kAttnSegment;
      int64_t pages = 0;
      while (pages * a.page_size < most && mine[pages] == theirs[pages]) pages++;
      const int64_t keys = pages * a.page_size < most ? pages * a.page_size : most, segments = keys / kAttnSegment;
      if (in_tiles(k, a, r) != in_tiles(k, a, g.leader)) continue;
      if (segments < 1 || segments * 2 < g.segments) continue;  // not for the price of what the others share
      g.members.push_back(r);
      g.segments = segments;
      joined = true;
      break;
    }
    if (!joined) groups.push_back({r, full, 0, {r}});
  }
  size_t kept = 0;
  for (Group& g : groups)
    if (g.members.size() > 1) {
      if (&groups[kept] != &g) groups[kept] = std::move(g);
      kept++;
    }
  groups.resize(kept);
  return groups;
}

// The shared segments of all groups: results at `out` by (group, member, kv head, segment).
void run_shared(const Kernels* k, const AttentionArgs& a, const std::vector<Group>& groups, const std::vector<int64_t>& token_of, float* out) {
  struct Task { const Group* group; int64_t kv_head, segment, first, count; };
  const int64_t G = a.heads / a.kv_heads, per = kRows / G > 0 ? kRows / G : 1, unit = G * (2 + a.dim_v);
  std::vector<Task> tasks;
  for (const Group& g : groups)
    for (int64_t h = 0; h < a.kv_heads; h++)
      for (int64_t s = 0; s < g.segments; s++)
        for (int64_t f = 0; f < int64_t(g.members.size()); f += per) {
          const int64_t left = int64_t(g.members.size()) - f;
          tasks.push_back({&g, h, s, f, left < per ? left : per});
        }
  parallel_for(int64_t(tasks.size()), [&](int64_t i) {
    const Task& t = tasks[size_t(i)];
    const Group& g = *t.group;
    Work w = work_buffers(a, per * G);
    const int64_t begin = t.segment * kAttnSegment, end = begin + kAttnSegment;
    for (int64_t j = 0; j < t.count; j++) {
      const int64_t request = g.members[size_t(t.first + j)];
      Item one{request, token_of[size_t(request)], 0, 1, t.kv_head, 1, 1, 0, 0, 0, 0, nullptr, 0};
      Work at = w;
      at.q += j * G * a.dim;
      at.pos += j * G;
      gather_queries(k, a, one, t.kv_head, at);
      for (int64_t r = 0; r < G; r++) at.pos[r] = end - 1;  // every row sees the whole segment
    }
    keys_segment(k, a, w, g.leader, t.kv_head, 1, begin, end, t.count * G, w.m, w.l, w.acc);
    for (int64_t j = 0; j < t.count; j++) {
      float* p = out + g.offset + (((t.first + j) * a.kv_heads + t.kv_head) * g.segments + t.segment) * unit;
      memcpy(p, w.m + j * G, size_t(G) * 4);
      memcpy(p + G, w.l + j * G, size_t(G) * 4);
      memcpy(p + 2 * G, w.acc + j * G * a.dim_v, size_t(G * a.dim_v) * 4);
    }
  });
}

void finish(const AttentionArgs& a, const Item& it, int64_t kv_head, const Work& w) {
  const int64_t G = a.heads / a.kv_heads;
  for (int64_t r = 0; r < it.tokens * G; r++) {
    const int64_t head = kv_head * G + r % G;
    float* dst = a.out + (it.token + r / G) * a.ldo + head * a.dim_v;
    const float* src = w.A + r * a.dim_v;
    float top = w.M[r], sum = w.L[r], factor = 1;
    if (a.sinks) {  // one more logit in the denominator, with no value
      const float sink = a.sinks[head];
      if (sink > top) {
        factor = isinf(top) ? 0.f : expf(top - sink);
        sum = sum * factor + 1.f;
      } else {
        sum += expf(sink - top);
      }
    }
    const float inv = sum > 0 ? factor / sum : 0.f;
    for (int64_t i = 0; i < a.dim_v; i++) dst[i] = src[i] * inv;
  }
}

void attention_run(const AttentionArgs& a) {
  const Kernels* k = sgl_kernels();
  const int64_t G = a.heads / a.kv_heads;
  std::vector<int64_t> token_of(static_cast<size_t>(a.R), 0);
  for (int64_t r = 1; r < a.R; r++) token_of[size_t(r)] = token_of[size_t(r - 1)] + a.query_lens[r - 1];
  std::vector<Group> groups = shared_prefixes(k, a);
  std::vector<const float*> shared(groups.empty() ? 0 : size_t(a.R), nullptr);
  std::vector<int64_t> shared_segments(shared.size(), 0);
  if (!groups.empty()) {
    int64_t floats = 0;
    for (Group& g : groups) {
      g.offset = floats;
      floats += int64_t(g.members.size()) * a.kv_heads * g.segments * G * (2 + a.dim_v);
    }
    float* results = static_cast<float*>(thread_scratch(1, floats * 4));
    run_shared(k, a, groups, token_of, results);
    for (const Group& g : groups)
      for (size_t j = 0; j < g.members.size(); j++) {
        shared[size_t(g.members[j])] = results + g.offset + int64_t(j) * a.kv_heads * g.segments * G * (2 + a.dim_v);
        shared_segments[size_t(g.members[j])] = g.segments;
      }
  }
  // The kv heads of a slot lie side by side in memory: whoever reads one head's keys takes the others' along, segment by segment, where
  // a step of decode rows has enough segments for all threads.
  int64_t whole = 0;
  for (int64_t r = 0; r < a.R; r++) whole += a.query_lens[r] == 1 ? a.context_lens[r] / kAttnSegment + 1 : 0;
  const bool together = whole >= 3 * pool_threads();
  std::vector<Item> items;
  int64_t segments = 0, max_rows = 0;
  for (int64_t r = 0; r < a.R && token_of[size_t(r)] < a.T; r++) {
    const int64_t token = token_of[size_t(r)], context = a.context_lens[r];
    const int64_t n = a.query_lens[r] < a.T - token ? a.query_lens[r] : a.T - token;
    const int64_t most = in_tiles(k, a, r) ? kTileRowsBf16 : kRows, block = most / G > 0 ? most / G : 1;
    const int64_t skip = shared.empty() ? 0 : shared_segments[size_t(r)];
    for (int64_t f = (n - 1) / block * block; n > 0 && f >= 0; f -= block) {  // the longest items first
      const int64_t tokens = f + block < n ? block : n - f;
      int64_t begin = a.window > 0 ? context + f - a.window + 1 : 0;
      begin = (begin > 0 ? begin / kAttnSegment : 0) * kAttnSegment + skip * kAttnSegment;
      const int64_t end = a.causal ? context + f + tokens : context + a.query_lens[r];
      const int64_t segs = (end - begin + kAttnSegment - 1) / kAttnSegment;
      const bool few = as_it_lies(k, a, r, tokens * G);
      const int64_t fit = kAttnFewRows / (tokens * G), columns = fit < a.kv_heads ? fit : a.kv_heads;
      const int64_t each = together && (few || a.query_lens[r] == 1) ? a.kv_heads : few ? columns : 1;
      if (each * tokens * G > max_rows) max_rows = each * tokens * G;
      for (int64_t h = 0; h < a.kv_heads; h += each) {
        const float* from = skip ? shared[size_t(r)] + h * skip * G * (2 + a.dim_v) : nullptr;
        const int64_t some = each < a.kv_heads - h ? each : a.kv_heads - h;
        items.push_back({r, token + f, f, tokens, h, some, few ? some : 1, begin, end, segs, segments, from, skip});
        segments += segs;
      }
    }
  }
  if (items.empty()) return;
  const int64_t count = int64_t(items.size()), stride = max_rows * (2 + a.dim_v);
  const bool split = count < 4 * pool_threads() && segments > count && segments * stride <= (64 << 20) / 4;
  if (!split) {
    // Runs of decode items are short: hand out several at once, but keep 8 chunks a thread.
    const int64_t per = count / (8 * pool_threads()) > 0 ? count / (8 * pool_threads()) : 1;
    parallel_for((count + per - 1) / per, [&](int64_t chunk) {
      Work w = work_buffers(a, max_rows);
      for (int64_t i = chunk * per; i < (chunk + 1) * per && i < count; i++) {
        const Item& it = items[size_t(i)];
        const int64_t rows = it.tokens * G;
        for (int64_t h = 0; h < it.kv_heads; h++) {
          const Work at = of_head(a, it, w, h);
          gather_queries(k, a, it, it.kv_head + h, at);
          start_sums(k, a, it, h, at);
        }
        for (int64_t s = 0; s < it.segments; s++)
          for (int64_t h = 0; h < it.kv_heads; h += it.at_once) {
            const Work at = of_head(a, it, w, h);
            segment(k, a, it, h, at, s, w.m, w.l, w.acc);
            k->attend_merge(w.m, w.l, w.acc, it.at_once * rows, a.dim_v, at.M, at.L, at.A);
          }
        for (int64_t h = 0; h < it.kv_heads; h++) finish(a, it, it.kv_head + h, of_head(a, it, w, h));
      }
    });
    return;
  }
  float* partial = static_cast<float*>(thread_scratch(3, segments * stride * 4 + segments * 8));
  int32_t* owner = reinterpret_cast<int32_t*>(partial + segments * stride);
  for (int64_t i = 0; i < count; i++)
    for (int64_t s = 0; s < items[size_t(i)].segments; s++) owner[items[size_t(i)].partial + s] = int32_t(i);
  parallel_for(segments, [&](int64_t j) {
    const Item& it = items[size_t(owner[j])];
    Work w = work_buffers(a, max_rows);
    const int64_t rows = it.at_once * it.tokens * G;
    float* p = partial + j * stride;
    for (int64_t h = 0; h < it.kv_heads; h += it.at_once, p += rows * (2 + a.dim_v)) {
      for (int64_t i = 0; i < it.at_once; i++) gather_queries(k, a, it, it.kv_head + h + i, of_head(a, it, w, i));
      segment(k, a, it, h, w, j - it.partial, p, p + rows, p + 2 * rows);
    }
  });
  // Merging is a few microseconds for the few rows of a split step: one thread.
  Work w = work_buffers(a, max_rows);
  for (const Item& it : items)
    for (int64_t h = 0; h < it.kv_heads; h += it.at_once) {
      const int64_t rows = it.at_once * it.tokens * G;
      for (int64_t i = 0; i < it.at_once; i++) start_sums(k, a, it, h + i, of_head(a, it, w, i));
      const float* p = partial + it.partial * stride + h * rows * (2 + a.dim_v);
      for (int64_t s = 0; s < it.segments; s++, p += stride) k->attend_merge(p, p + rows, p + 2 * rows, rows, a.dim_v, w.M, w.L, w.A);
      for (int64_t i = 0; i < it.at_once; i++) finish(a, it, it.kv_head + h + i, of_head(a, it, w, i));
    }
}

}  // namespace

SGL_API int sgl_attention(const float* q, int64_t ldq, float* out, int64_t ldo, const void* k_cache, const void* v_cache,
                          int32_t kv_type, int64_t slot_stride_k, int64_t slot_stride_v, int64_t head_stride_k,
                          int64_t head_stride_v, const float* k_scale, const float* v_scale, const int32_t* page_table,
                          int64_t ldp, int64_t page_size, const int32_t* query_lens, const int32_t* context_lens, int64_t T,
                          int64_t R, int64_t heads, int64_t kv_heads, int64_t dim, int64_t dim_v, float scale, int64_t window,
                          float softcap, const float* sinks, int32_t causal, int64_t bf16_from) {
  if (heads < 1 || kv_heads < 1 || heads % kv_heads) return fail("attention: %lld query heads do not share %lld kv heads evenly", (long long)heads, (long long)kv_heads);
  if (dim % 16 || dim_v % 16 || dim < 16 || dim_v < 16) return fail("attention: head sizes must be multiples of 16, not %lld and %lld", (long long)dim, (long long)dim_v);
  if (kv_type < 0 || kv_type > KV_INT8) return fail("attention: kv type %d is unknown", kv_type);
  if (kv_type == KV_INT8 && (!k_scale || !v_scale)) return fail("attention: an int8 cache needs k_scale and v_scale");
  if (bf16_from < -1) return fail("attention: bf16 from request %lld", (long long)bf16_from);
  if (page_size < 1) return fail("attention: page size %lld", (long long)page_size);
  AttentionArgs a{q, ldq, out, ldo, k_cache, v_cache, slot_stride_k, slot_stride_v, head_stride_k, head_stride_v, k_scale, v_scale,
                  page_table, ldp, query_lens, context_lens, sinks, T, R, heads, kv_heads, dim, dim_v, page_size, window,
                  kv_type, causal, scale, softcap, bf16_from};
  return SGL_SUBMIT(AttentionArgs, attention_run, a);
}
