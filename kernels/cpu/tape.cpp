// The tape: ops recorded as (function, arguments) in one arena and replayed in order without the caller's language between.
#include <stdlib.h>
#include <time.h>

#include <vector>

#include "api.h"

namespace {

struct Entry { OpFn fn; const char* name; size_t offset; };

struct Tape {
  std::vector<Entry> entries;
  std::vector<uint64_t> arena;  // 8-byte units keep the arguments aligned
};

thread_local Tape* t_recording = nullptr;

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

}  // namespace

int submit(OpFn fn, const void* args, size_t bytes, const char* name) {
  if (!t_recording) {
    fn(args);
    return 0;
  }
  Tape& t = *t_recording;
  const size_t offset = t.arena.size();
  t.arena.resize(offset + (bytes + 7) / 8);
  memcpy(t.arena.data() + offset, args, bytes);
  t.entries.push_back({fn, name, offset});
  return 0;
}

SGL_API void* sgl_tape_new() { return new Tape; }
SGL_API void sgl_tape_free(void* tape) {
  if (t_recording == tape) t_recording = nullptr;
  delete static_cast<Tape*>(tape);
}

// From here to sgl_tape_end the calling thread's ops are recorded and not run.
SGL_API int sgl_tape_begin(void* tape) {
  if (t_recording) return fail("tape: this thread already records one; recordings do not nest");
  t_recording = static_cast<Tape*>(tape);
  return 0;
}
SGL_API int sgl_tape_end() {
  if (!t_recording) return fail("tape: this thread records nothing");
  t_recording = nullptr;
  return 0;
}

SGL_API int sgl_tape_replay(const void* tape) {
  if (t_recording) return fail("tape: replay inside a recording");
  const Tape& t = *static_cast<const Tape*>(tape);
  for (const Entry& e : t.entries) e.fn(t.arena.data() + e.offset);
  return 0;
}

SGL_API int64_t sgl_tape_size(const void* tape) { return int64_t(static_cast<const Tape*>(tape)->entries.size()); }
SGL_API const char* sgl_tape_name(const void* tape, int64_t i) { return static_cast<const Tape*>(tape)->entries[size_t(i)].name; }

// Replays once and adds each op's nanoseconds to ns[i].
SGL_API int sgl_tape_profile(const void* tape, int64_t* ns) {
  if (t_recording) return fail("tape: replay inside a recording");
  const Tape& t = *static_cast<const Tape*>(tape);
  int64_t last = now_ns();
  for (size_t i = 0; i < t.entries.size(); i++) {
    t.entries[i].fn(t.arena.data() + t.entries[i].offset);
    const int64_t now = now_ns();
    ns[i] += now - last;
    last = now;
  }
  return 0;
}
