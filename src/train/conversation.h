// Supervised fine-tuning: conversations to ids with a loss mask, and the task that trains on them.
#pragma once
#include "data/prepare.h"
#include "data/record_reader.h"
#include "data/schema.h"
#include "data/token_store.h"
#include "text/template/encode_chat.h"
#include "train/causal.h"
#include "train/examples.h"

namespace makar {

struct MaskedTokens {
  std::vector<int64_t> ids;
  std::vector<uint8_t> loss_mask;  // 1 where the loss counts the token
};

struct ConversationOptions {
  int64_t sequence_len = 1024;   // longer conversations are truncated at the end
  bool train_on_inputs = false;  // compute the loss on all tokens
  // For scoring the last answer: the tokens after it are dropped, and longer conversations are truncated at
  // the beginning.
  bool keep_end = false;
};

// Encodes messages with the model's chat template. If the template has no {% generation %} block, the
// assistant's text is what its turn adds to the rendering of the previous turns with a generation prompt.
class ConversationEncoder {
 public:
  ConversationEncoder(Tokenizer tokenizer, ChatTemplate chat, ConversationOptions options);
  // The loss counts the assistant's turns after the first `prompt_turns` messages.
  Result<MaskedTokens> encode(const Json& messages, size_t prompt_turns = 0) const;
  // The conversation so far, with a generation prompt.
  Result<std::vector<int64_t>> encode_prompt(const Json& messages) const;
  // A template for models without one: "### Instruction", "### Response", and the end token after each
  // answer.
  static std::string plain_template(const std::string& end_token);

 private:
  Tokenizer tokenizer_;
  ChatTemplate chat_;
  ChatEncoder encoder_;
  ConversationOptions o_;
};

// Writes conversations to disk as they are read: token shards with loss masks, for training and validation.
// Memory use is constant.
class ConversationWriter {
 public:
  ConversationWriter(const std::string& folder, int64_t vocab);
  Status add(const MaskedTokens& tokens, bool validation);
  // Closes the shards and writes their manifest; call it before opening the stores.
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
// All records of a file or folder. `type`: a schema's name, or "" to detect it.
Result<ConversationsRead> read_conversations(const DataPath& path, const std::string& type,
                                             const ConversationEncoder& encoder, ValidationSplit& split,
                                             ConversationWriter& out);

struct ConversationStores {
  TokenStore train, validation;
};
std::string hash_of(const ConversationStores& stores);
// Reads all conversations of the datasets into token shards below the run folder. Adds the hash of the tokens
// to `identity`.
Result<ConversationStores> open_conversations(const DatasetOptions& options,
                                              const ConversationEncoder& encoder, int64_t vocab,
                                              Json& identity);

// Groups of documents; each group is one training example.
using Packs = std::vector<std::vector<int64_t>>;
// Packs documents into groups of at most `capacity` tokens: longest first, each into the fullest pack with
// enough space (best-fit decreasing). A pure function of the lengths.
Packs pack_documents(const TokenStore& store, int64_t capacity);

// An example is one conversation, or with `pack_length` > 0 a pack of at most that many tokens. Attention
// never crosses conversations. Validation examples are single conversations.
class ConversationTask : public ExampleTask {
 public:
  ConversationTask(Model& model, TokenStore train, TokenStore validation, int64_t batch, uint64_t seed,
                   float smoothing, int64_t pack_length = 0);
  size_t packs() const { return packs_.size(); }

 protected:
  Result<MicroBatch> make(std::span<const size_t> which, bool validation, uint64_t draw) override;

 private:
  Model& model_;
  ConversationTask(Model& model, TokenStore train, TokenStore validation, int64_t batch, uint64_t seed,
                   float smoothing, Packs packs);
  TokenStore train_, validation_;
  float smoothing_;
  Packs packs_;
};

}  // namespace makar
