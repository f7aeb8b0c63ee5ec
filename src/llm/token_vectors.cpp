#include "llm/token_vectors.h"

namespace makar {

Result<TokenizedText> tokenize_for_vectors(const LanguageModel& language, const std::string& text,
                                           size_t max) {
  const ModelSpec& spec = language.spec();
  EncodeOptions options;
  options.add_special = true;
  if (spec.max_positions > 0)
    options.truncation =
        Truncation{static_cast<size_t>(spec.max_positions), 0, Truncation::Strategy::kLongestFirst, false};
  MAKAR_TRY(const Encoding encoding, language.tokenizer().encode(text, options));
  TokenizedText out{{encoding.ids.begin(), encoding.ids.end()}, {}};
  if (out.ids.size() > max) out.ids.resize(max);
  for (size_t i = 0; i < out.ids.size(); ++i)
    out.special.push_back(i < encoding.special_mask.size() && encoding.special_mask[i] != 0);
  return out;
}

Result<TokenEncoder> TokenEncoder::make(const LanguageModel& language, Device& device, int64_t layer) {
  const ModelSpec& spec = language.spec();
  const StackSpec& stack = spec.encoder ? *spec.encoder : *spec.decoder;
  if (stack.embedding.vocab == 0)
    return error_of(Error::Kind::kUnsupported, "model", "{} reads images, not text", spec.architecture);
  if (layer < -1 || layer > stack.layers())
    return error_at("--layer", "the model has layers 0 to {}, got {}", stack.layers(), layer);
  return TokenEncoder(language, device, layer == -1 ? stack.layers() : layer);
}

TokenVectors TokenEncoder::operator()(const TokenizedText& text) const {
  TokenVectors out;
  if (text.ids.empty()) return out;
  const Model& model = language_.model();
  Context ctx{device_};
  Record record;
  record.hidden = true;
  ForwardContext f{ctx, nullptr, &record};
  Inputs inputs;
  inputs.source.add(text.ids);
  if (model.spec().encoder)
    model.encode(f, inputs.source);
  else
    model.hidden(f, inputs);
  const Tensor states = record.hidden_states.at(static_cast<size_t>(layer_)).host();  // [tokens, width]
  out.width = static_cast<size_t>(states.dim(1));
  out.values.assign(states.f32(), states.f32() + states.count());
  for (const bool special : text.special) out.weights.push_back(special ? 0 : 1);
  normalize(out);
  return out;
}

}  // namespace makar
