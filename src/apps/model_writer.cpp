#include "apps/model_writer.h"

namespace makar {

constexpr const char* kOmittedObservation = "Observation:\n> (left out: the context is full)";

int64_t ModelWriter::context_length() const {
  return context_size(language_.spec(), engine_.options().context);
}

Result<std::vector<int64_t>> ModelWriter::encode(const Json& messages) const {
  if (plain_ || !language_.chat_template()) {
    std::string text;
    for (const Json& message : messages) text += (text.empty() ? "" : "\n\n") + message.value("content", "");
    return language_.encode(text);
  }
  ChatInput input;
  input.messages = messages;
  input.add_generation_prompt = true;
  return language_.encode_chat(input);
}

Result<std::shared_ptr<Constraint>> ModelWriter::constraint(const std::string& schema) {
  if (!constrainer_) {
    MAKAR_TRY(constrainer_, Constrainer::of(language_));
  }
  auto found = grammars_.find(schema);
  if (found == grammars_.end()) {
    MAKAR_TRY(Grammar grammar, Grammar::from_json_schema(schema));
    found = grammars_.emplace(schema, std::move(grammar)).first;
  }
  return constrainer_->constrain(found->second);
}

Result<ModelReply> ModelWriter::operator()(const Json& messages, const std::string& schema,
                                           int64_t max_tokens, double seconds, uint64_t sample) {
  Json fitted = messages;
  std::vector<int64_t> prompt;
  for (size_t oldest = 2;;) {
    MAKAR_TRY(prompt, encode(fitted));
    if (context_length() <= 0 || static_cast<int64_t>(prompt.size()) + max_tokens <= context_length()) break;
    while (oldest < fitted.size() &&
           !(fitted[oldest]["role"] == "user" && fitted[oldest]["content"] != kOmittedObservation))
      ++oldest;
    if (oldest + 1 >= fitted.size())
      break;  // the last observation stays; the reply gets the remaining tokens
    fitted[oldest]["content"] = kOmittedObservation;
  }
  if (context_length() > 0 && static_cast<int64_t>(prompt.size()) >= context_length())
    return error_of(Error::Kind::kLimit, "context",
                    "the conversation has {} tokens, the context of the model {}; use a model with a longer "
                    "context, or shorter inputs",
                    prompt.size(), context_length());
  TextGenerationOptions options = options_;
  options.max_new_tokens = max_tokens, options.fit = true;
  options.max_time = std::max(seconds, 0.001);
  options.sampler.seed += sample;
  if (!schema.empty()) {
    MAKAR_TRY(options.constraint, constraint(schema));
  } else {
    options.stop.insert(options.stop.end(), stop_.begin(), stop_.end());
  }
  MAKAR_TRY(const TextGenerationResult result, generate_text(engine_, language_, std::move(prompt), options));
  return ModelReply{result.answers.front().text, result.prompt_tokens,
                    static_cast<int64_t>(result.answers.front().tokens.size())};
}

}  // namespace makar
