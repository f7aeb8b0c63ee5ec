#include "llm/embed.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/json.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

// Pools rows [start, start + length) of hidden into out.
void pool_rows(const Tensor& hidden, const Sequence& s, const EmbedOptions& o, float* out) {
  const int64_t width = hidden.dim(1);
  const float* rows = hidden.f32() + s.start * width;
  if (o.pooling == Pooling::kFirst) {
    std::copy_n(rows, width, out);
  } else if (o.pooling == Pooling::kLast) {
    std::copy_n(rows + (s.length - 1) * width, width, out);
  } else {
    for (int64_t c = 0; c < width; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < s.length; ++r) sum += static_cast<double>(rows[r * width + c]);
      out[c] = static_cast<float>(sum / static_cast<double>(s.length));
    }
  }
  if (!o.normalize) return;
  double square = 0;
  for (int64_t c = 0; c < width; ++c) square += static_cast<double>(out[c]) * static_cast<double>(out[c]);
  const double norm = std::max(std::sqrt(square), 1e-12);
  for (int64_t c = 0; c < width; ++c) out[c] = static_cast<float>(static_cast<double>(out[c]) / norm);
}

}  // namespace

Result<EmbedOptions> embed_options(const std::string& folder, const LanguageModel& language) {
  EmbedOptions o;
  if (!language.spec().encoder) o.pooling = Pooling::kLast;
  const fs::path root(folder);
  std::error_code ignored;
  if (const auto path = root / "1_Pooling" / "config.json"; fs::exists(path, ignored)) {
    MAKAR_TRY(const Json json, read_json(path.string()));
    const auto says = [&](const char* key) {
      return json.is_object() && json.value(key, Json()) == Json(true);
    };
    if (says("pooling_mode_cls_token")) o.pooling = Pooling::kFirst;
    if (says("pooling_mode_lasttoken")) o.pooling = Pooling::kLast;
    if (says("pooling_mode_mean_tokens")) o.pooling = Pooling::kMean;
  }
  if (const auto path = root / "sentence_bert_config.json"; fs::exists(path, ignored)) {
    MAKAR_TRY(const Json json, read_json(path.string()));
    if (json.is_object() && json.contains("max_seq_length") && json["max_seq_length"].is_number_integer())
      o.max_tokens = std::max<int64_t>(json["max_seq_length"].get<int64_t>(), 1);
  }
  return o;
}

Result<Tensor> embed(const LanguageModel& language, ThreadPool& pool, const std::vector<std::string>& texts,
                     const EmbedOptions& o) {
  const ModelSpec& spec = language.spec();
  if (spec.encoder && spec.decoder)
    return error_of(Error::Kind::kUnsupported, "embed",
                    "{} is an encoder-decoder; use an encoder or a decoder", spec.architecture);
  const StackSpec& stack = spec.encoder ? *spec.encoder : *spec.decoder;
  if (stack.embedding.vocab == 0)
    return error_of(Error::Kind::kUnsupported, "embed", "{} reads images, not text", spec.architecture);
  int64_t most = spec.max_positions > 0 ? spec.max_positions : int64_t{1} << 20;
  if (o.max_tokens > 0) most = std::min(most, o.max_tokens);
  EncodeOptions encode;
  encode.add_special = true, encode.offsets = false;
  encode.truncation = Truncation{static_cast<size_t>(most), 0, Truncation::Strategy::kLongestFirst, false};
  const int64_t width = stack.project_out > 0 ? stack.project_out : stack.width;
  Tensor out = Tensor::empty({static_cast<int64_t>(texts.size()), width});
  Context ctx{pool};
  Inputs inputs;
  int64_t done = 0;
  const auto flush = [&] {
    if (inputs.source.sequences.empty()) return;
    ForwardContext f{ctx};
    const Tensor hidden = language.model().hidden(f, inputs);
    for (const Sequence& s : inputs.source.sequences) pool_rows(hidden, s, o, out.f32() + done++ * width);
    inputs = {};
  };
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto encoding = language.tokenizer().encode(texts[i], encode);
    if (!encoding.ok()) return encoding.error().in(fmt::format("text {}", i + 1));
    std::vector<int64_t> ids(encoding->ids.begin(), encoding->ids.end());
    if (ids.empty()) return error_at(fmt::format("text {}", i + 1), "has no tokens");
    inputs.source.add(ids);
    if (!encoding->type_ids.empty()) inputs.source.types.resize(static_cast<size_t>(inputs.source.rows()), 0);
    if (inputs.source.rows() >= o.step_tokens) flush();
  }
  flush();
  return out;
}

}  // namespace makar
