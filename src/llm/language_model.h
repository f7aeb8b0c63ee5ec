// A loaded model folder: the model, its tokenizer, its chat template, and the ids that end an answer.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "images/processor.h"
#include "infer/memory_plan.h"
#include "models/load.h"
#include "text/template/chat_template.h"
#include "text/template/encode_chat.h"
#include "text/tokenizer.h"

namespace makar {

struct ModelSource;

// kPacked: packed for the kernels and frozen; other copies are freed.
// kMapped: mapped in the dtypes of the files. kTrained: f32 copies that this process trains.
// An engine runs on any of them, with the same results.
enum class WeightUse { kPacked, kMapped, kTrained };

struct LanguageModelOptions {
  std::vector<std::string> adapters = {};  // "FOLDER" or "FOLDER:WEIGHT", applied to all requests
  MemoryBudget memory = {};               // a model that does not fit is rejected before its weights are read
  std::vector<std::string> offered = {};  // adapter folders that requests select by index
  WeightUse weights = WeightUse::kPacked;
  DType activations = DType::kF32;  // of packed models: f32 or bf16
};

class LanguageModel {
 public:
  static Result<LanguageModel> open(const std::string& path, Device& device,
                                    const LanguageModelOptions& options = {});

  const Model& model() const { return *loaded_.model; }
  // For training: the model and its family.
  LoadedModel& loaded() { return loaded_; }
  const ModelSpec& spec() const { return loaded_.model->spec(); }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  bool has_tokenizer() const { return tokenizer_.has_value(); }
  const std::optional<ChatTemplate>& chat_template() const { return template_; }
  // Replaces the template; the special tokens stay the same.
  Status use_template(const std::string& source, const std::string& place);
  // How images become the pixels of a model that reads RGB images.
  const std::optional<ImageProcessor>& image_processor() const { return images_; }
  // Whether the chat template writes the image token for parts {"type": "image"} of a message.
  bool places_images() const;
  const std::vector<int64_t>& stop_ids() const { return stop_; }
  // Warnings about the model files, for the user.
  const std::vector<std::string>& warnings() const { return loaded_.warnings; }

  // Encodes plain text and adds the tokenizer's special tokens around it.
  Result<std::vector<int64_t>> encode(const std::string& text, bool parse_special = false,
                                      WorkBudget* work = nullptr) const;
  // Encodes a conversation, ready for the assistant to answer (or to continue its last message).
  Result<std::vector<int64_t>> encode_chat(const ChatInput& input) const;
  // Encodes the segments of a rendered chat: control tokens are found only in those of the template.
  Result<std::vector<int64_t>> encode_segments(const ChatRendering& rendering) const;

 private:
  LanguageModel() = default;
  Status open_text(const ModelSource& source);
  Status open_images(const std::string& folder);
  LoadedModel loaded_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<ChatTemplate> template_;
  std::shared_ptr<ChatEncoder> chat_;
  std::vector<int64_t> stop_;
  std::optional<ImageProcessor> images_;
};

}  // namespace makar
