#include "infer/memory_plan.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/resident.h"
#include "kernels/cpu_device.h"
#include "tensor/block_pool.h"

namespace makar {
namespace {

constexpr int64_t kMinStepRows = 32;
constexpr int64_t kMaxSmallProductRows = 256;  // up to this many rows, a matrix product packs small blocks
// Scratch memory of products with up to kMaxSmallProductRows rows, and with more.
constexpr int64_t kSmallProductBytes = int64_t{4} << 20, kLargeProductBytes = int64_t{16} << 20;
constexpr int64_t kOtherBytes = int64_t{8} << 20;  // thread stacks, small allocations, texts in flight
constexpr int64_t kPageRoundingShare = 50;         // allowance for rounding to pages: 1/50 of a matrix
constexpr int64_t kDefaultTextTokens = 1024;       // assumed for an encoder without a position limit

// Upper bound for the activations of one row, in floats: the residual stream and the largest block.
int64_t row_floats(const StackSpec& stack) {
  int64_t max = 0;
  for (const BlockSpec& b : stack.blocks) {
    const AttentionSpec& a = b.attention;
    const FeedForwardSpec& f = b.feed_forward;
    const int64_t active_experts = std::max<int64_t>(f.experts_per_token, 1);
    const int64_t latent = a.latent ? 5 * a.heads * a.head_dim : 0;  // parts of heads before they are joined
    const int64_t recurrent = b.mixer ? 8 * b.mixer->conv_channels() : 0;
    max = std::max(max, recurrent + latent + 2 * a.heads * a.head_dim + 4 * a.kv_heads * a.head_dim +
                            (f.gated ? 3 : 2) * f.width * active_experts);
  }
  return 6 * stack.width + max;
}

bool is_table(const Model& model, const Parameter* p) {
  return (model.encoder() && p == model.encoder()->tokens()) ||
         (model.decoder() && p == model.decoder()->tokens());
}

// Memory that mapped embedding tables add when they are read; copied ones are already counted.
int64_t table_bytes(const Model& model) {
  int64_t sum = 0;
  for (const auto& p : model.parameters().all())
    if (is_table(model, p.get()) && MappedFile::is_mapped(p->value.address()))
      sum += static_cast<int64_t>(p->value.bytes());
  return sum;
}

int64_t page_bytes(const ModelSpec& spec, const CacheTypes& types) {
  return spec.decoder ? KvCache(*spec.decoder, 0, 0, types).page_bytes() : 0;
}

double mb(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

// The resident size of equal processes differs by this much: file pages that others have read are resident.
constexpr int64_t kResidentSpread = 2'000'000;

// `rest`: memory of the process besides weights, a step and pages. `rows`: of the step.
Error too_small(const std::string& name, const MemoryBudget& budget, int64_t rest, int64_t weights,
                int64_t rows, int64_t step, int64_t page, int64_t min) {
  return error_of(Error::Kind::kLimit, "`program.mem_budget`",
                  "{:.1f} MB are not enough for {}: weights take {:.1f} MB, a step of {} tokens {:.1f} MB, a "
                  "page of {} tokens {:.2f} MB, the rest of the process {:.1f} MB; give at least {:.0f} MB",
                  mb(budget.bytes), name, mb(weights), rows, mb(step), KvCache::kPageRows, mb(page), mb(rest),
                  std::ceil(mb(min + kResidentSpread)));
}

}  // namespace

WeightMemory weight_memory(Model& model) {
  struct Matrix {
    int64_t count, mapped, freed, packed;
  };
  std::vector<Matrix> matrices;
  model.each_linear([&](const std::string&, const Linear& linear) {
    const Tensor& w = linear.weight()->value;
    const bool mapped = MappedFile::is_mapped(w.address());
    const bool freed = !mapped && !linear.adapter() && !is_table(model, linear.weight());
    const auto bytes = static_cast<int64_t>(w.bytes());
    const auto packed = static_cast<int64_t>(CpuDevice::packed_bytes(w.dtype(), w.dim(0), w.dim(1)));
    matrices.push_back(
        {w.count(), mapped ? bytes : 0, freed ? bytes : 0, packed + packed / kPageRoundingShare});
  });
  std::stable_sort(matrices.begin(), matrices.end(),
                   [](const Matrix& a, const Matrix& b) { return a.count > b.count; });
  WeightMemory memory;
  memory.tables = table_bytes(model);
  for (const Matrix& matrix : matrices) {
    memory.packed += matrix.packed;
    memory.peak = std::max(memory.peak, memory.packed - memory.freed + matrix.mapped);
    memory.freed += matrix.freed;
  }
  return memory;
}

int64_t step_bytes(const ModelSpec& spec, int64_t rows) {
  const auto encoder_rows =
      spec.reads_images() ? std::max(rows, spec.image_rows())
                          : std::max(rows, spec.max_positions > 0 ? spec.max_positions : kDefaultTextTokens);
  int64_t floats = rows * row_floats(spec.main());
  if (spec.encoder)
    floats =
        std::max(floats, encoder_rows * row_floats(*spec.encoder));  // encoders process a text in one step
  const int64_t logits = spec.decoder ? std::min(rows, kMaxLogitRows) * spec.vocab + 8 * spec.vocab : 0;
  const bool small = (spec.encoder ? encoder_rows : rows) <= kMaxSmallProductRows;
  const int64_t products = small ? kSmallProductBytes : kLargeProductBytes;
  return 4 * (floats + floats / 4 + logits) + products + kOtherBytes;
}

Status admit_model(Model& model, const std::string& name, const MemoryBudget& budget) {
  if (budget.bytes <= 0) return Done{};
  const WeightMemory memory = weight_memory(model);
  const int64_t resident = resident_memory().now, weights = memory.packed + memory.tables;
  const int64_t step = step_bytes(model.spec(), kMinStepRows), page = page_bytes(model.spec(), budget.cache);
  const int64_t rest = resident - memory.freed;
  const int64_t min = std::max(resident + memory.peak, rest + weights + step + page);
  if (min > budget.bytes) return too_small(name, budget, rest, weights, kMinStepRows, step, page, min);
  BlockPool::shared().set_limit(BlockPool::shared().used() + static_cast<size_t>(budget.bytes - resident));
  return Done{};
}

Result<EngineOptions> fit_engine(const Model& model, const MemoryBudget& budget, EngineOptions options,
                                 int64_t draft_page_bytes) {
  if (budget.bytes <= 0) {
    options.max_prefix_pages = -1;
    return options;
  }
  const ModelSpec& spec = model.spec();
  BlockPool::shared().trim();
  const int64_t resident = resident_memory().now, tables = table_bytes(model);
  const int64_t page = page_bytes(spec, budget.cache) + draft_page_bytes;
  const int64_t available = budget.bytes - resident - tables;
  int64_t rows = std::max(options.step_tokens, kMinStepRows);
  while (rows > kMinStepRows && step_bytes(spec, rows) > available / 2)
    rows = std::max(rows / 2, kMinStepRows);
  const int64_t step = step_bytes(spec, rows);
  if (available < step + page)
    return too_small("all models together", budget, 0, resident + tables, rows, step, page,
                     resident + tables + step + page);
  options.step_tokens = rows;
  if (page > 0) options.max_pages = (available - step) / page;
  BlockPool::shared().set_limit(BlockPool::shared().used() + static_cast<size_t>(available));
  return options;
}

}  // namespace makar
