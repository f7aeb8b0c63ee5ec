#include "llm/embed.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/json.h"
#include "infer/encode_job.h"

namespace makar {
namespace fs = std::filesystem;

Result<EmbedOptions> embed_options(const std::string& folder, const LanguageModel& language) {
  EmbedOptions o;
  if (!language.spec().encoder) o.pooling = Pooling::kLast;
  const fs::path root(folder);
  std::error_code ignored;
  if (const auto path = root / "1_Pooling" / "config.json"; fs::exists(path, ignored)) {
    MAKAR_TRY(const Json json, read_json(path.string()));
    const auto is_set = [&](const char* key) {
      return json.is_object() && json.value(key, Json()) == Json(true);
    };
    if (is_set("pooling_mode_cls_token")) o.pooling = Pooling::kFirst;
    if (is_set("pooling_mode_lasttoken")) o.pooling = Pooling::kLast;
    if (is_set("pooling_mode_mean_tokens")) o.pooling = Pooling::kMean;
  }
  if (const auto path = root / "sentence_bert_config.json"; fs::exists(path, ignored)) {
    MAKAR_TRY(const Json json, read_json(path.string()));
    if (json.is_object() && json.contains("max_seq_length") && json["max_seq_length"].is_number_integer())
      o.max_tokens = std::max<int64_t>(json["max_seq_length"].get<int64_t>(), 1);
  }
  return o;
}

Result<std::vector<int64_t>> embed_tokens(const LanguageModel& language, const std::string& text,
                                          const EmbedOptions& o, WorkBudget* work) {
  const ModelSpec& spec = language.spec();
  if (spec.is_encoder_decoder() || spec.image_input)
    return error_of(Error::Kind::kUnsupported, "embed", "{} {}; use an encoder or a decoder",
                    spec.architecture,
                    spec.image_input ? "generates text from images" : "is an encoder-decoder");
  if (spec.main().embedding.vocab == 0)
    return error_of(Error::Kind::kUnsupported, "embed", "{} reads images, not text", spec.architecture);
  int64_t max = spec.max_positions > 0 ? spec.max_positions : int64_t{1} << 20;
  if (o.max_tokens > 0) max = std::min(max, o.max_tokens);
  EncodeOptions encode;
  encode.add_special = true, encode.offsets = false, encode.work = work;
  encode.truncation = Truncation{static_cast<size_t>(max), 0, Truncation::Strategy::kLongestFirst, false};
  MAKAR_TRY(const Encoding encoding, language.tokenizer().encode(text, encode));
  if (encoding.ids.empty()) return error_at("text", "has no tokens");
  return std::vector<int64_t>(encoding.ids.begin(), encoding.ids.end());
}

std::vector<float> pool_states(const Tensor& states, const EmbedOptions& o) {
  const int64_t length = states.dim(0), width = states.dim(1);
  const float* rows = states.f32();
  std::vector<float> out(static_cast<size_t>(width));
  if (o.pooling == Pooling::kFirst) {
    std::copy_n(rows, width, out.begin());
  } else if (o.pooling == Pooling::kLast) {
    std::copy_n(rows + (length - 1) * width, width, out.begin());
  } else {
    for (int64_t c = 0; c < width; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < length; ++r) sum += static_cast<double>(rows[r * width + c]);
      out[static_cast<size_t>(c)] = static_cast<float>(sum / static_cast<double>(length));
    }
  }
  if (!o.normalize) return out;
  double square = 0;
  for (const float v : out) square += static_cast<double>(v) * static_cast<double>(v);
  const double norm = std::max(std::sqrt(square), 1e-12);
  for (float& v : out) v = static_cast<float>(static_cast<double>(v) / norm);
  return out;
}

std::vector<float> text_vector(const Model& model, Device& device, const Tensor& states,
                               const std::vector<int64_t>& tokens, const EmbedOptions& o) {
  if (model.spec().head.kind != HeadKind::kContrastive) return pool_states(states, o);
  Context ctx{device};
  Batch batch;
  batch.add(tokens);
  const Tensor vector = model.text_vectors(ctx, states.to(device.memory()), batch).host();
  return {vector.span().begin(), vector.span().end()};
}

Result<Tensor> embed(Engine& engine, const LanguageModel& language, const std::vector<std::string>& texts,
                     const EmbedOptions& o) {
  std::vector<std::shared_ptr<EncodeJob>> jobs;
  std::vector<std::vector<int64_t>> tokens;
  for (size_t i = 0; i < texts.size(); ++i) {
    auto ids = embed_tokens(language, texts[i], o);
    if (!ids.ok()) return ids.error().in(fmt::format("text {}", i + 1));
    jobs.push_back(std::make_shared<EncodeJob>(*ids));
    tokens.push_back(std::move(*ids));
  }
  // Small groups: hidden states are held in memory until they are pooled.
  constexpr size_t kJobsPerGroup = 64;
  std::vector<float> all;
  for (size_t from = 0; from < jobs.size(); from += kJobsPerGroup) {
    const size_t to = std::min(jobs.size(), from + kJobsPerGroup);
    for (size_t i = from; i < to; ++i) engine.submit(jobs[i]);
    engine.run();
    for (size_t i = from; i < to; ++i) {
      if (jobs[i]->error) return jobs[i]->error->in(fmt::format("text {}", i + 1));
      const std::vector<float> one =
          text_vector(language.model(), engine.device(), jobs[i]->states(), tokens[i], o);
      all.insert(all.end(), one.begin(), one.end());
      jobs[i].reset();
    }
  }
  const auto count = static_cast<int64_t>(texts.size());
  return Tensor::from({count, count > 0 ? static_cast<int64_t>(all.size()) / count : 0}, all);
}

Result<int64_t> Embedder::count_tokens(const std::vector<std::string>& texts) const {
  int64_t out = 0;
  for (const std::string& text : texts) {
    MAKAR_TRY(const auto ids, embed_tokens(language_, text, options_));
    out += static_cast<int64_t>(ids.size());
  }
  return out;
}

EngineOptions Embedder::engine_options() {
  EngineOptions o;
  o.step_tokens = 2048,
  o.share_prefixes = false;  // all hidden states are needed, so prefixes cannot be reused
  return o;
}

Result<std::shared_ptr<Embedder>> Embedder::open(const std::string& path, Device& device,
                                                 const MemoryBudget& budget) {
  MAKAR_TRY(LanguageModel language, LanguageModel::open(path, device, {{}, budget}));
  if (!language.has_tokenizer()) return error_of(Error::Kind::kNotFound, path, "has no tokenizer");
  MAKAR_TRY(const EmbedOptions options, embed_options(path, language));
  return std::shared_ptr<Embedder>(new Embedder(std::move(language), options, device));
}

}  // namespace makar
