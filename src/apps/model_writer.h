// Replies of a language model: conversations through its chat template, within its context, optionally
// restricted to a JSON schema.
#pragma once
#include <map>
#include <optional>

#include "apps/agent.h"
#include "llm/constrain.h"
#include "llm/text_generation.h"

namespace makar {

class ModelWriter {
 public:
  // `engine` and `language` must outlive it. A model without a chat template gets the messages as plain text.
  ModelWriter(Engine& engine, const LanguageModel& language, TextGenerationOptions options)
      : engine_(engine), language_(language), options_(std::move(options)) {}

  // A ReplyWriter. If the conversation does not fit the context, the oldest observations are left out.
  // `sample`: the index of a sample of the same messages; each has its own seed.
  Result<ModelReply> operator()(const Json& messages, const std::string& schema, int64_t max_tokens,
                                double seconds, uint64_t sample = 0);
  // Strings that end free text.
  void stop_at(std::vector<std::string> stop) { stop_ = std::move(stop); }
  // Plain text even if the model has a chat template.
  void use_plain_text(bool on) { plain_ = on; }
  // The tokens of a conversation.
  Result<std::vector<int64_t>> encode(const Json& messages) const;
  int64_t context_length() const;  // in tokens; 0: no limit

 private:
  Result<std::shared_ptr<Constraint>> constraint(const std::string& schema);
  Engine& engine_;
  const LanguageModel& language_;
  TextGenerationOptions options_;
  std::vector<std::string> stop_;
  bool plain_ = false;
  std::optional<Constrainer> constrainer_;
  std::map<std::string, Grammar> grammars_;  // by schema
};

}  // namespace makar
