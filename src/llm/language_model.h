// A model folder opened for use: the model, its tokenizer, its chat template, the ids that end an answer.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infer/memory_plan.h"
#include "models/load.h"
#include "text/template/chat_template.h"
#include "text/template/encode_chat.h"
#include "text/tokenizer.h"

namespace makar {

struct ModelSource;

struct LanguageModelOptions {
  std::vector<std::string> adapters = {};  // "FOLDER" or "FOLDER:WEIGHT", beside the weights
  MemoryBudget memory = {};                // a model that does not fit is refused before its weights are read
  std::vector<std::string> offered = {};   // folders of adapters that requests choose among, by their numbers
};

// The template of a folder, or the one inside a GGUF file; kNotFound where there is none.
Result<ChatTemplate> chat_template_of(const ModelSource& source, const Tokenizer& tokenizer);

class LanguageModel {
 public:
  // Weights are laid out for the kernels and frozen.
  static Result<LanguageModel> open(const std::string& path, ThreadPool& pool,
                                    const LanguageModelOptions& options = {});

  const Model& model() const { return *loaded_.model; }
  const ModelSpec& spec() const { return loaded_.model->spec(); }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  bool has_tokenizer() const { return tokenizer_.has_value(); }
  const std::optional<ChatTemplate>& chat_template() const { return template_; }
  // Another template instead; it sees the same special tokens.
  Status use_template(const std::string& source, const std::string& place);
  const std::vector<int64_t>& stop_ids() const { return stop_; }
  // What is odd about the files, for the user to know.
  const std::vector<std::string>& warnings() const { return loaded_.warnings; }

  // Plain text with the tokens the tokenizer puts around it.
  Result<std::vector<int64_t>> encode(const std::string& text, bool parse_special = false) const;
  // A conversation, ready for the assistant to answer (or to go on with its last message).
  Result<std::vector<int64_t>> encode_chat(const ChatInput& input) const;

 private:
  LanguageModel() = default;
  Status open_text(const ModelSource& source);
  LoadedModel loaded_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<ChatTemplate> template_;
  std::shared_ptr<ChatEncoder> chat_;
  std::vector<int64_t> stop_;
};

}  // namespace makar
