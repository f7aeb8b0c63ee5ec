// Preference data as tokens: two answers to one prompt, the better one first.
#pragma once
#include "data/datasets.h"
#include "data/spool.h"
#include "train/conversation.h"

namespace makar {

struct AnswerPair {
  std::vector<int64_t> chosen, rejected;            // prompt and answer
  std::vector<uint8_t> chosen_mask, rejected_mask;  // 1 for the tokens of the answer
  static constexpr auto fields() {
    return std::tuple(&AnswerPair::chosen, &AnswerPair::rejected, &AnswerPair::chosen_mask,
                      &AnswerPair::rejected_mask);
  }
};

// A conversation of prompt and answer, both lists of turns; the tokens of the answer are marked.
Result<MaskedTokens> encode_answer(const ConversationEncoder& encoder, const Json& prompt,
                                   const Json& answer);

// Stored in temporary files in `folder`.
struct AnswerPairs {
  explicit AnswerPairs(const std::string& folder) : train(folder), validation(folder) {}
  SpoolOf<AnswerPair> train, validation;
  BadRecords bad;  // of the file read last
};
// Adds the preference records (to_preference()) of a file or folder.
Status read_answer_pairs(const DataPath& path, const ConversationEncoder& encoder, ValidationSplit& split,
                         AnswerPairs& out);
// Reads the pairs of all datasets.
Result<AnswerPairs> open_answer_pairs(const DatasetOptions& options, const ConversationEncoder& encoder,
                                      Json& identity);

// The pairs of a safetensors file, for comparing with another framework: chosen and rejected [pairs, time] as
// ids, and mask [pairs, time] with 1 for the tokens of answers (without it, all but the first). All pairs
// are training pairs.
Result<AnswerPairs> read_fixed_pairs(const std::string& path, const std::string& folder, int64_t vocab);

// Pairs as one ragged batch: all chosen answers, then all rejected ones.
struct AnswerBatch {
  Batch batch;
  std::vector<float> mask;     // 1 for the tokens of answers
  std::vector<float> lengths;  // scored tokens per answer
  void add(const std::vector<int64_t>& ids, const std::vector<uint8_t>& loss_mask);
};
AnswerBatch batch_answers(const std::vector<AnswerPair>& pairs);

}  // namespace makar
