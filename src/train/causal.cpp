#include "train/causal.h"

#include <algorithm>

#include "ops/softmax.h"
#include "train/objective.h"

namespace makar {
namespace {

std::vector<double> weights_of(const std::vector<TokenSource>& sources) {
  std::vector<double> out;
  for (const TokenSource& s : sources)
    out.push_back(s.weight > 0 ? s.weight : static_cast<double>(std::max<int64_t>(1, s.store.tokens())));
  return out;
}

}  // namespace

uint64_t window_count(const TokenStore& store, int64_t context) {
  return static_cast<uint64_t>(std::max<int64_t>(1, (store.tokens() - 1) / context - 1));
}

void add_window(const TokenStore& store, int64_t begin, int64_t end, Batch& batch,
                std::vector<int64_t>& targets) {
  end = std::min(end, store.tokens());
  for (const TokenRange& part : store.document_ranges(begin, end)) {
    // If the document continues, read one more token: it is the target of the last one.
    const auto with_next = store.document_ranges(part.begin, std::min(part.end + 1, store.tokens())).front();
    const std::vector<int64_t> ids = store.read(with_next);
    const std::vector<uint8_t> loss_mask = store.masked() ? store.mask(with_next) : std::vector<uint8_t>();
    batch.add({ids.begin(), ids.begin() + part.size()});
    for (int64_t i = 0; i < part.size(); ++i) {
      const auto next = static_cast<size_t>(i + 1);
      const bool counts = next < ids.size() && (loss_mask.empty() || loss_mask[next]);
      targets.push_back(counts ? ids[next] : ops::kIgnore);
    }
  }
}

CausalTask::CausalTask(Model& model, std::vector<TokenSource> sources, std::vector<TokenStore> validation,
                       CausalOptions options, Sampler sampler)
    : model_(model),
      sources_(std::move(sources)),
      validation_(std::move(validation)),
      o_(options),
      mixture_(mixture_of(sources_, o_.seed)),
      sampler_(std::move(sampler)) {}

std::vector<int64_t> bidirectional_targets(const Batch& batch, const std::vector<int64_t>& next) {
  std::vector<int64_t> out(2 * next.size(), ops::kIgnore);
  for (const Sequence& s : batch.sequences)
    for (int64_t i = s.start; i < s.start + s.length; ++i) {
      const auto at = static_cast<size_t>(i);
      out[2 * at] = next[at];
      if (i > s.start) out[2 * at + 1] = batch.tokens[at - 1];
    }
  return out;
}

MicroBatch next_token_batch(Model& model, Batch batch, std::vector<int64_t> targets, float smoothing) {
  if (model.spec().head.kind == HeadKind::kBidirectionalLm) targets = bidirectional_targets(batch, targets);
  MicroBatch out;
  out.tokens = batch.rows(), out.squared_lengths = squared_lengths(batch);
  out.weight = static_cast<double>(targets.size()) -
               static_cast<double>(std::count(targets.begin(), targets.end(), ops::kIgnore));
  LanguageBatch language;
  language.inputs.source = std::move(batch), language.targets = std::move(targets);
  out.language = std::make_shared<const LanguageBatch>(std::move(language));
  out.loss = [&model, smoothing, b = out.language](ForwardContext& f) -> Result<Tensor> {
    return language_loss(f, model, b->inputs, b->targets, smoothing);
  };
  return out;
}

Mixture mixture_of(const std::vector<TokenSource>& sources, uint64_t seed) {
  return Mixture(weights_of(sources), seed);
}

WindowStart window_at(const std::vector<TokenSource>& sources, const Mixture& mixture, int64_t context,
                      uint64_t seed, uint64_t i) {
  const auto draw = mixture(i);
  const TokenStore& store = sources[draw.source].store;
  const uint64_t windows = window_count(store, context), epoch = draw.rank / windows;
  const uint64_t source_seed = seed * 1000003 + draw.source;  // a large prime: distinct per (seed, source)
  const auto window = static_cast<int64_t>(Permutation(windows, source_seed, epoch)(draw.rank % windows));
  // Each epoch shifts the window boundaries.
  const auto shifts =
      static_cast<uint64_t>(std::min(context, std::max<int64_t>(1, store.tokens() - context)));
  const auto offset =
      static_cast<int64_t>(Rng(source_seed, Purpose::kShuffle, epoch).bits(~uint64_t{0})[0] % shifts);
  return {&store, offset + window * context};
}

Result<MicroBatch> CausalTask::train_batch(uint64_t index) {
  Batch batch;
  std::vector<int64_t> targets;
  for (int64_t i = 0; i < o_.batch; ++i) {
    const auto window = window_at(sources_, mixture_, o_.context, o_.seed,
                                  index * static_cast<uint64_t>(o_.batch) + static_cast<uint64_t>(i));
    add_window(*window.store, window.begin, window.begin + o_.context, batch, targets);
  }
  return next_token_batch(model_, std::move(batch), std::move(targets), o_.smoothing);
}

uint64_t CausalTask::batches_per_epoch() const {
  uint64_t windows = 0;
  for (const TokenSource& s : sources_) windows += window_count(s.store, o_.context) + 1;
  return std::max<uint64_t>(1, windows / static_cast<uint64_t>(o_.batch));
}

uint64_t CausalTask::validation_batches() const {
  const int64_t batch_tokens = o_.context * o_.batch;
  uint64_t n = 0;
  for (const TokenStore& v : validation_)
    n +=
        static_cast<uint64_t>((std::min(v.tokens(), o_.validation_tokens) + batch_tokens - 1) / batch_tokens);
  return n;
}

Result<MicroBatch> CausalTask::validation_batch(uint64_t index) {
  const int64_t batch_tokens = o_.context * o_.batch;
  Batch batch;
  std::vector<int64_t> targets;
  for (const TokenStore& v : validation_) {
    const int64_t evaluated_tokens = std::min(v.tokens(), o_.validation_tokens);
    const auto batches = static_cast<uint64_t>((evaluated_tokens + batch_tokens - 1) / batch_tokens);
    if (index >= batches) {
      index -= batches;
      continue;
    }
    for (int64_t w = 0; w < o_.batch; ++w) {
      const int64_t begin = static_cast<int64_t>(index) * batch_tokens + w * o_.context;
      if (begin < evaluated_tokens)
        add_window(v, begin, std::min(begin + o_.context, evaluated_tokens), batch, targets);
    }
    break;
  }
  return next_token_batch(model_, std::move(batch), std::move(targets), o_.smoothing);
}

Result<std::string> CausalTask::sample(Device& device, int64_t step) {
  return sampler_ ? sampler_(device, step) : Result<std::string>(std::string());
}

}  // namespace makar
