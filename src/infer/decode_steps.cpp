#include "infer/decode_steps.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ops/next_rows.h"

namespace makar {
namespace {

constexpr int64_t kMinPages = 8;   // per row
constexpr size_t kMaxShapes = 64;  // recordings kept
constexpr int64_t kSamplerFields = sizeof(kernels::RowSampler) / sizeof(int64_t);

// Few rows have a recording each; more are padded to a multiple of 8.
int64_t padded(int64_t rows) { return rows <= 8 ? rows : (rows + 7) / 8 * 8; }

Tensor upload(Device& device, const Shape& shape, const std::vector<int64_t>& values) {
  return Tensor::from(shape, std::span<const int64_t>(values)).to(device.memory());
}

template <class T>
std::vector<int64_t> fields_of(const std::vector<T>& rows) {
  std::vector<int64_t> out(rows.size() * sizeof(T) / sizeof(int64_t));
  std::memcpy(out.data(), rows.data(), out.size() * sizeof(int64_t));
  return out;
}

}  // namespace

bool DecodeSteps::supports(const Model& model) {
  const ModelSpec& spec = model.spec();
  return spec.continues_text() && model.decoder()->reads_device_rows();
}

DecodeSteps::StepShape& DecodeSteps::shape_for(int64_t rows, int64_t pages, bool samples) {
  auto& entry = shapes_[{rows, pages, samples}];
  if (!entry) {
    entry = std::make_unique<StepShape>();
    const auto n = static_cast<size_t>(rows);
    const std::vector<int64_t> zeros(n * static_cast<size_t>(std::max<int64_t>(pages, 6)));
    const auto some = [&](int64_t each) {
      return upload(device_, Shape{rows, each}, {zeros.begin(), zeros.begin() + rows * each});
    };
    entry->rows = {some(1), some(1), some(6), some(pages), pages};
    entry->chosen = some(1);
    if (samples) entry->samplers = some(kSamplerFields);
    entry->batch.tokens.assign(n, 0), entry->batch.positions.assign(n, 0);
    entry->batch.on_device = &entry->rows;
  }
  entry->last_use = ++uses_;
  StepShape& found = *entry;
  if (shapes_.size() > kMaxShapes)
    shapes_.erase(std::min_element(shapes_.begin(), shapes_.end(), [](const auto& a, const auto& b) {
      return a.second->last_use < b.second->last_use;
    }));
  return found;
}

void DecodeSteps::set_rows(const std::vector<Row>& rows) {
  check(started_.empty() && !rows.empty(),
        "decoding steps: all started steps must be taken before rows are set");
  int64_t max_pages = kMinPages;
  for (const Row& row : rows)
    max_pages = std::max(max_pages, static_cast<int64_t>(cache_.pages(row.slot).size()));
  rows_ = rows;
  const bool samples =
      std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.sampler.temperature > 0; });
  current_ = &shape_for(padded(static_cast<int64_t>(rows.size())),
                        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(max_pages))), samples);
  const auto n = static_cast<size_t>(current_->batch.rows());
  std::vector<int64_t> tokens(n), positions(n);
  std::vector<kernels::SequenceRows> sequences(n);
  std::vector<kernels::RowSampler> samplers(samples ? n : 0);
  for (size_t i = 0; i < n; ++i) {
    sequences[i].q_start = static_cast<int64_t>(i);
    sequences[i].first_page = static_cast<int64_t>(i) * current_->rows.max_pages;
    if (i >= rows.size()) continue;  // padding
    tokens[i] = rows[i].token, positions[i] = rows[i].position;
    if (samples) samplers[i] = rows[i].sampler;
    sequences[i].q_rows = 1, sequences[i].past = rows[i].position,
    sequences[i].kv_rows = rows[i].position + 1;
  }
  ops::replace_values(device_, current_->rows.tokens, tokens);
  ops::replace_values(device_, current_->rows.positions, positions);
  ops::replace_values(device_, current_->rows.sequences, fields_of(sequences));
  if (samples) ops::replace_values(device_, current_->samplers, fields_of(samplers));
  pages_.clear();
}

void DecodeSteps::upload_pages() {
  const int64_t max = current_->rows.max_pages;
  std::vector<int64_t> pages(static_cast<size_t>(current_->rows.pages.count()));
  for (size_t i = 0; i < rows_.size(); ++i) {
    const std::vector<int64_t> addresses = cache_.page_addresses(rows_[i].slot);
    const auto count = std::min(addresses.size(), static_cast<size_t>(max));
    std::copy_n(addresses.begin(), count, pages.begin() + static_cast<int64_t>(i) * max);
  }
  if (pages == pages_) return;
  ops::replace_values(device_, current_->rows.pages, pages);
  pages_ = std::move(pages);
}

void DecodeSteps::forward(StepShape& shape) {
  Context ctx{device_};
  ctx.activations = model_.activations();
  ForwardContext f{ctx, &cache_};
  const Tensor hidden = model_.decode(f, shape.batch, {}, nullptr);
  const Tensor logits = model_.lm_logits(ctx, hidden);
  if (shape.samplers.defined())
    ops::sample_rows(ctx, logits, shape.samplers, shape.chosen);
  else
    ops::choose_largest(ctx, logits, shape.chosen);
  ops::advance_rows(ctx, shape.chosen, shape.rows.tokens, shape.rows.positions, shape.rows.sequences);
}

void DecodeSteps::start() {
  check(current_ != nullptr, "decoding steps: rows must be set before a step starts");
  // A longer context has a recording with more pages.
  for (const Row& row : rows_)
    check(static_cast<int64_t>(cache_.pages(row.slot).size()) <= current_->rows.max_pages,
          "decoding steps: a sequence outgrew its page table");
  upload_pages();
  if (current_->has_run && !current_->recorded)
    current_->recorded = device_.record([this, shape = current_] { forward(*shape); });
  if (current_->recorded)
    current_->recorded->run();
  else
    forward(*current_);
  current_->has_run = true;
  started_.push_back(ops::copy_later(device_, current_->chosen));
}

std::vector<int64_t> DecodeSteps::take() {
  check(!started_.empty(), "decoding steps: no step was started");
  std::vector<int64_t> tokens(rows_.size());
  std::memcpy(tokens.data(), started_.front()->wait(), tokens.size() * sizeof(int64_t));
  started_.pop_front();
  return tokens;
}

}  // namespace makar
