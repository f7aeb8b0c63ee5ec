// Supervised fine-tuning: conversations to ids with a mask of what is learnt, and the task that learns them.
#pragma once
#include "data/record_reader.h"
#include "data/schema.h"
#include "data/token_store.h"
#include "text/template/encode_chat.h"
#include "train/causal.h"
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

// Conversations on disk as they are read: token shards with masks, in two parts. Memory does not grow with
// them.
class ConversationWriter {
 public:
  ConversationWriter(const std::string& folder, int64_t vocab);
  Status add(const LearntTokens& tokens, bool validation);
  // Closes the shards and writes their manifest; the stores may be opened then.
  Status finish();
  uint64_t train() const { return train_.documents(); }
  uint64_t validation() const { return validation_.documents(); }

 private:
  std::string folder_;
  int64_t vocab_;
  TokenWriter train_, validation_;
};

struct ConversationsRead {
  BadRecords bad;
  std::string schema;
};
// All records of a file or folder; `share` of them, by hash, for validation (1: all). `type`: a schema's
// name, or "" to detect.
Result<ConversationsRead> read_conversations(const std::string& path, const std::string& type,
                                             const ConversationEncoder& encoder, double share,
                                             ConversationWriter& out);

class ConversationTask : public ExampleTask {
 public:
  ConversationTask(Model& model, TokenStore train, TokenStore validation, int64_t batch, uint64_t seed,
                   float smoothing);

 protected:
  Result<MicroBatch> make(std::span<const size_t> which, bool validation, uint64_t draw) override;

 private:
  Model& model_;
  TokenStore train_, validation_;
  float smoothing_;
};

}  // namespace makar
