// Supervised fine-tuning: conversations to ids with a mask of what is learnt, and the task that learns them.
#pragma once
#include "data/record_reader.h"
#include "data/schema.h"
#include "text/template/encode_chat.h"
#include "train/examples.h"

namespace makar {

struct LearntTokens {
  std::vector<int64_t> ids;
  std::vector<uint8_t> learnt;  // 1 where the loss counts the token
};

struct ConversationOptions {
  int64_t sequence_len = 1024;   // longer ones are cut at their end
  bool train_on_inputs = false;  // learn all tokens
};

// Messages through the model's chat template. Where the template marks no {% generation %}, the assistant's
// words are what a turn adds to the rendering of the turns before it with a generation prompt.
class ConversationEncoder {
 public:
  ConversationEncoder(Tokenizer tokenizer, ChatTemplate chat, ConversationOptions options);
  Result<LearntTokens> encode(const Json& messages) const;
  // A template for models that have none: "### Instruction", "### Response", and the end token after an
  // answer.
  static std::string plain_template(const std::string& end_token);

 private:
  Tokenizer tokenizer_;
  ChatTemplate chat_;
  ChatEncoder encoder_;
  ConversationOptions o_;
};

struct Conversations {
  std::vector<LearntTokens> train, validation;
  BadRecords bad;
  std::string schema;
  uint64_t cut = 0;  // longer than sequence_len
};
// All records of a file or folder; `share` of them, by hash, for validation. `type`: a schema's name, or ""
// to detect.
Status read_conversations(const std::string& path, const std::string& type,
                          const ConversationEncoder& encoder, double share, Conversations& out);

class ConversationTask : public ExampleTask {
 public:
  ConversationTask(Model& model, std::vector<LearntTokens> train, std::vector<LearntTokens> validation,
                   int64_t batch, uint64_t seed, float smoothing);

 protected:
  Result<MicroBatch> make(std::span<const size_t> which, bool validation, uint64_t draw) override;

 private:
  Model& model_;
  std::vector<LearntTokens> train_, validation_;
  float smoothing_;
};

// The loss of next-token prediction on a ragged batch.
MicroBatch next_token_batch(Model& model, Batch batch, std::vector<int64_t> targets, float smoothing);

}  // namespace makar
