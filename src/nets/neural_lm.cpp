#include "nets/neural_lm.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/shape.h"
#include "ops/softmax.h"

namespace makar {
namespace {

// Every word and every end of a sentence as a target, with the words before it as context.
struct Windows {
  std::vector<int64_t> contexts, targets;
  void add(const std::vector<int64_t>& ids, int64_t context) {
    for (size_t i = 0; i <= ids.size(); ++i) {
      for (int64_t back = context; back >= 1; --back) {
        const int64_t at = static_cast<int64_t>(i) - back;
        contexts.push_back(at < 0 ? WordVocabulary::kPad : ids[static_cast<size_t>(at)]);
      }
      targets.push_back(i < ids.size() ? ids[i] : WordVocabulary::kPad);
    }
  }
};

}  // namespace

void NeuralLm::declare() {
  table_ = set_.add("words.weight", {vocabulary_.size(), width_});
  hidden_layer_ = Linear(set_, "hidden", context_ * width_, hidden_, true);
  output_ = Linear(set_, "output", hidden_, vocabulary_.size(), true);
}

Tensor NeuralLm::hidden_rows(Context& ctx, const std::vector<int64_t>& contexts) {
  const int64_t rows = static_cast<int64_t>(contexts.size()) / context_;
  const Tensor x = ops::reshape(ctx, ops::embedding(ctx, table_->value, contexts), {rows, context_ * width_});
  return ops::activate(ctx, hidden_layer_(ctx, x), ops::Activation::kTanh);
}

Result<NeuralLm> NeuralLm::train(const std::vector<std::string>& sentences, const NeuralLmOptions& o,
                                 Device& device, const std::function<void(const EpochResult&)>& each) {
  MAKAR_RETURN_IF_ERROR(check(o.training));
  if (o.context < 1 || o.context > 64) return error_at("`context`", "must be 1 to 64, got {}", o.context);
  if (o.width < 1 || o.width > 4096) return error_at("`width`", "must be 1 to 4096, got {}", o.width);
  if (o.hidden < 1 || o.hidden > 65536) return error_at("`hidden`", "must be 1 to 65536, got {}", o.hidden);
  NeuralLm net;
  net.context_ = o.context, net.width_ = o.width, net.hidden_ = o.hidden;
  net.vocabulary_ = WordVocabulary::count(sentences, o.min_count, static_cast<size_t>(o.max_words));
  net.declare();
  initialize(net.set_, HiddenActivation::kTanh, static_cast<uint64_t>(o.training.seed));
  net.set_.to(device.memory());
  Windows windows;
  for (const std::string& s : sentences) windows.add(net.vocabulary_.ids(s), o.context);
  if (windows.targets.empty()) return error_at("data", "has no sentences");
  const auto context = static_cast<size_t>(o.context);
  MAKAR_RETURN_IF_ERROR(train_net(
      net.set_, device, o.training, windows.targets.size(),
      [&](Context& ctx, std::span<const size_t> examples) {
        std::vector<int64_t> contexts, targets;
        for (const size_t w : examples) {
          contexts.insert(contexts.end(), windows.contexts.begin() + static_cast<std::ptrdiff_t>(w * context),
                          windows.contexts.begin() + static_cast<std::ptrdiff_t>((w + 1) * context));
          targets.push_back(windows.targets[w]);
        }
        return ops::linear_cross_entropy(ctx, net.hidden_rows(ctx, contexts), net.output_.weight()->value,
                                         net.output_.bias()->value, targets);
      },
      [&](const EpochResult& r) -> Result<bool> {
        each(r);
        return true;
      }));
  return net;
}

LmScore NeuralLm::score(const std::vector<std::string>& sentences, Device& device) {
  constexpr size_t kBatchWindows = 512;
  LmScore out;
  double total = 0;
  Windows windows;
  const auto flush = [&] {
    if (windows.targets.empty()) return;
    Context ctx{device};
    ops::CrossEntropyOptions o;
    o.reduction = ops::Reduction::kSum;
    total += ops::linear_cross_entropy(ctx, hidden_rows(ctx, windows.contexts), output_.weight()->value,
                                       output_.bias()->value, windows.targets, o)
                 .host()
                 .f32()[0];
    out.words += static_cast<int64_t>(windows.targets.size());
    windows = {};
  };
  for (const std::string& s : sentences) {
    const auto ids = vocabulary_.ids(s);
    out.unknown += std::count(ids.begin(), ids.end(), WordVocabulary::kUnknown);
    windows.add(ids, context_);
    if (windows.targets.size() >= kBatchWindows) flush();
  }
  flush();
  out.perplexity = out.words > 0 ? std::exp(total / static_cast<double>(out.words)) : 0;
  return out;
}

std::string NeuralLm::generate(uint64_t seed, uint64_t number, int64_t max_words, Device& device) {
  const Rng rng(seed, Purpose::kSample, number);
  std::vector<int64_t> context(static_cast<size_t>(context_), WordVocabulary::kPad);
  std::string out;
  for (int64_t i = 0; i < max_words; ++i) {
    Context ctx{device};
    const Tensor p = ops::softmax(ctx, output_(ctx, hidden_rows(ctx, context))).host();
    double left = rng.uniform_double(static_cast<uint64_t>(i)) * (1.0 - p.f32()[WordVocabulary::kUnknown]);
    int64_t word = WordVocabulary::kPad;
    for (int64_t w = 0; w < p.dim(1); ++w) {
      if (w == WordVocabulary::kUnknown) continue;
      word = w, left -= p.f32()[w];
      if (left < 0) break;
    }
    if (word == WordVocabulary::kPad) break;
    out += (out.empty() ? "" : " ") + vocabulary_.word(word);
    context.erase(context.begin());
    context.push_back(word);
  }
  return out;
}

Status NeuralLm::save(const std::string& folder) const {
  return save_net(folder,
                  {{"kind", "neural-lm"},
                   {"context", context_},
                   {"width", width_},
                   {"hidden", hidden_},
                   {"words", vocabulary_.json()}},
                  set_);
}

Result<NeuralLm> NeuralLm::load(const std::string& folder) {
  MAKAR_TRY(const Json json, read_net(folder));
  const std::string place = folder + "/net.json";
  if (json["kind"] != "neural-lm")
    return error_at(place, "this network is not a feed-forward language model");
  NeuralLm net;
  MAKAR_TRY(net.context_, integer_in(json, "context", 1, 64, place));
  MAKAR_TRY(net.width_, integer_in(json, "width", 1, 4096, place));
  MAKAR_TRY(net.hidden_, integer_in(json, "hidden", 1, 65536, place));
  MAKAR_TRY(net.vocabulary_, WordVocabulary::from_json(json.value("words", Json()), place));
  net.declare();
  MAKAR_RETURN_IF_ERROR(load_weights(folder, net.set_));
  return net;
}

}  // namespace makar
