// Attention over (sequence, head) items, and the cache it reads.
#include <algorithm>
#include <optional>
#include <vector>

#include "kernels/cpu/key_pages.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/tasks.h"
#include "kernels/cpu_device.h"

namespace makar {

using namespace kernels;

namespace {

constexpr int64_t kBlockRows = 192;            // query rows per item
constexpr int64_t kCachedTasksPerThread = 16;  // tasks per thread in attention on a cache

// Head h of sequence s; k and v are null if they are in a cache.
AttentionHead head_of(const AttentionShape& shape, int64_t s, int64_t h, const float* q, const float* k,
                      const float* v) {
  const SequenceRows& rows = shape.sequences[s];
  AttentionHead a{};
  const int64_t kv_head = h / (shape.heads / shape.kv_heads), dim = shape.head_dim;
  a.q_stride = shape.heads * dim, a.kv_stride = shape.kv_heads * dim;
  a.q = q + rows.q_start * a.q_stride + h * dim;
  const int64_t kv_at = rows.kv_start * a.kv_stride + kv_head * dim;
  if (k) a.k = k + kv_at, a.v = v + kv_at;
  a.rows = rows.q_rows, a.keys = rows.kv_rows, a.dim = dim, a.past = rows.past;
  a.causal = shape.causal, a.window = shape.window, a.scale = shape.scale, a.soft_cap = shape.soft_cap;
  const int64_t bias_row = 2 * shape.bias_span + 1;
  if (shape.bias) a.bias = shape.bias + h * bias_row + shape.bias_span;
  a.bias_by_key = shape.bias_by_key;
  a.out_stride = a.q_stride;
  a.dropout = shape.dropout, a.seed = shape.seed, a.step = shape.step;
  a.stream = (shape.stream * static_cast<uint64_t>(shape.count) + static_cast<uint64_t>(s)) *
                 static_cast<uint64_t>(shape.heads) +
             static_cast<uint64_t>(h);
  return a;
}

// Rows [row, row + rows) of `heads` heads from `head` on. There are several heads only for a single query row
// on a cache.
struct HeadItem {
  int64_t sequence, head, heads, row, rows;
};

}  // namespace

// Runs every (sequence, head); long prompts are split into blocks of rows, so that few heads still occupy all
// threads.
void CpuDevice::attention(const Attention& args) {
  const AttentionShape& shape = args.shape;
  std::vector<HeadItem> items;
  const bool item_per_head = shape.dropout > 0 || shape.count * shape.heads >= 4 * pool_->threads();
  for (int64_t s = 0; s < shape.count; ++s)
    for (int64_t h = 0; h < shape.heads; ++h) {
      const int64_t rows = shape.sequences[s].q_rows, step = item_per_head ? rows : kBlockRows;
      for (int64_t r = 0; r < rows; r += std::max<int64_t>(step, 1))
        items.push_back({s, h, 1, r, std::min(step, rows - r)});
    }
  const Table& t = cpu();
  pool_->run(static_cast<int64_t>(items.size()), [&](int64_t i) {
    const HeadItem& item = items[static_cast<size_t>(i)];
    AttentionHead a = head_of(shape, item.sequence, item.head, args.q, args.k, args.v);
    const int64_t first = shape.sequences[item.sequence].q_start + item.row;
    a.q += item.row * a.q_stride;
    a.past += item.row;
    a.rows = item.rows;
    a.out = args.out + first * a.out_stride + item.head * shape.head_dim;
    a.lse = args.lse + first * shape.heads + item.head, a.lse_stride = shape.heads;
    const Scratch scratch = Scratch::of_floats(t.attention_scratch(a));
    t.attention_forward(a, scratch.floats());
  });
}

void CpuDevice::attention_weights(const AttentionWeights& args) {
  const AttentionShape& shape = args.shape;
  for (int64_t h = 0; h < shape.heads; ++h) {
    AttentionHead a = head_of(shape, args.sequence, h, args.q, args.k, args.v);
    a.lse = const_cast<float*>(args.lse) + shape.sequences[args.sequence].q_start * shape.heads + h;
    a.lse_stride = shape.heads;
    a.record = args.weights + h * a.rows * a.keys;
    const Scratch scratch = Scratch::of_floats(cpu().attention_scratch(a));
    cpu().attention_weights(a, scratch.floats());
  }
}

// Each key/value head is one task, which adds its query heads in order.
void CpuDevice::attention_backward(const AttentionBackward& args) {
  const AttentionShape& shape = args.shape;
  const int64_t group = shape.heads / shape.kv_heads, width = 2 * shape.bias_span + 1;
  const Table& t = cpu();
  pool_->run(shape.count * shape.kv_heads, [&](int64_t i) {
    const int64_t s = i / shape.kv_heads, kv_head = i % shape.kv_heads,
                  kv_width = shape.kv_heads * shape.head_dim;
    const SequenceRows& rows = shape.sequences[s];
    const auto head = [&](int64_t h) {
      AttentionHead a = head_of(shape, s, h, args.q, args.k, args.v);
      a.out = const_cast<float*>(args.out) + rows.q_start * a.q_stride + h * shape.head_dim;
      a.lse = const_cast<float*>(args.lse) + rows.q_start * shape.heads + h, a.lse_stride = shape.heads;
      return a;
    };
    const Scratch scratch = Scratch::of_floats(t.attention_backward_scratch(head(kv_head * group)));
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      const AttentionHead a = head(h);
      const int64_t at = rows.q_start * a.q_stride + h * shape.head_dim,
                    kv_at = rows.kv_start * kv_width + kv_head * shape.head_dim;
      AttentionHeadBackward g{args.dy + at, args.dq + at, args.dk + kv_at, args.dv + kv_at};
      if (args.dbias) g.dbias = args.dbias + (s * shape.heads + h) * width + shape.bias_span;
      t.attention_backward(a, g, scratch.floats());
    }
  });
}

void CpuDevice::attention_cached(const AttentionCached& args) {
  const AttentionShape& shape = args.shape;
  const int64_t group = shape.heads / shape.kv_heads;
  std::vector<HeadItem> items;
  for (int64_t s = 0; s < shape.count; ++s) {
    const int64_t rows = shape.sequences[s].q_rows;
    if (rows == 1) {
      for (int64_t h = 0; h < shape.heads; h += group) items.push_back({s, h, group, 0, 1});
      continue;
    }
    for (int64_t h = 0; h < shape.heads; ++h)
      for (int64_t r = 0; r < rows; r += kBlockRows)
        items.push_back({s, h, 1, r, std::min(kBlockRows, rows - r)});
  }
  const Table& t = cpu();
  const auto head = [&](const HeadItem& item) {
    AttentionHead a = head_of(shape, item.sequence, item.head, args.q, nullptr, nullptr);
    const SequenceRows& rows = shape.sequences[item.sequence];
    const int64_t kv_head = item.head / group;
    const CacheLayer& c = args.cache;
    a.cache = {c.pages + rows.first_page, c.k_offset + kv_head * c.k_head, c.v_offset + kv_head * c.v_head,
               c.k_type, c.v_type};
    a.q += item.row * a.q_stride;
    a.sinks = args.sinks;
    if (args.q_sinks) a.q_sinks = args.q_sinks + (a.q - args.q);
    a.past += item.row, a.rows = item.rows;
    a.out = args.out + (rows.q_start + item.row) * a.out_stride + item.head * shape.head_dim;
    if (args.lse)
      a.lse = args.lse + (rows.q_start + item.row) * shape.heads + item.head, a.lse_stride = shape.heads;
    if (item.heads > 1) {
      a.rows = item.heads, a.row_step = 0, a.lse_stride = 1;
      a.q_stride = a.out_stride = shape.head_dim;
      a.bias_stride = 2 * shape.bias_span + 1;
    }
    return a;
  };
  const auto count = static_cast<int64_t>(items.size());
  const int64_t tasks = std::min<int64_t>(count, pool_->threads() * kCachedTasksPerThread);
  pool_->run(tasks, [&](int64_t task) {
    std::optional<Scratch> scratch;
    int64_t scratch_floats = 0;
    for (int64_t i = count * task / tasks; i < count * (task + 1) / tasks; ++i) {
      const AttentionHead a = head(items[static_cast<size_t>(i)]);
      const int64_t floats = t.attention_scratch(a);
      if (floats > scratch_floats) scratch.emplace(floats * int64_t{sizeof(float)}), scratch_floats = floats;
      t.attention_forward(a, scratch ? scratch->floats() : nullptr);
    }
  });
}

// The rows of all sequences are divided among threads together: in a decode step each sequence has one row.
void CpuDevice::cache_store(const CacheStore& args) {
  constexpr int64_t kRowGrain = 2;  // rows per task: writing a key touches one cache line per dimension
  struct Row {
    std::byte* page;
    int64_t at, from;
  };
  std::vector<Row> rows;
  const CacheLayer& c = args.cache;
  for (int64_t s = 0; s < args.count; ++s) {
    const SequenceRows& q = args.sequences[s];
    for (int64_t i = 0; i < q.q_rows; ++i) {
      const int64_t row = q.past + i;
      rows.push_back(
          {const_cast<std::byte*>(c.pages[q.first_page + row / kKeyTile]), row % kKeyTile, q.q_start + i});
    }
  }
  const int64_t dim = args.head_dim, width = args.kv_heads * dim;
  pool_->for_ranges(static_cast<int64_t>(rows.size()), kRowGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      for (int64_t h = 0; h < args.kv_heads; ++h) {
        const int64_t from = rows[i].from * width + h * dim;
        store_key(c.k_type, args.k + from, dim, rows[i].at, rows[i].page + c.k_offset + h * c.k_head);
        store_value(c.v_type, args.v + from, dim, rows[i].at, rows[i].page + c.v_offset + h * c.v_head);
      }
  });
}

void CpuDevice::bias_from_table(const BiasFromTable& a) {
  for (int64_t h = 0; h < a.heads; ++h)
    for (int64_t i = 0; i < a.width; ++i) a.bias[h * a.width + i] = a.table[a.bucket[i] * a.heads + h];
}

void CpuDevice::bias_from_table_backward(const BiasFromTableBackward& a) {
  for (int64_t s = 0; s < a.sequences; ++s)
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t i = 0; i < a.width; ++i)
        a.dtable[a.bucket[i] * a.heads + h] += a.dbias[(s * a.heads + h) * a.width + i];
}

}  // namespace makar
