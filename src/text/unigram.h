// Unigram language model (Kudo, 2018): the segmentation with the highest sum of log-probabilities (Viterbi).
#pragma once
#include "text/byte_trie.h"
#include "text/model.h"

namespace makar {

class Unigram : public TokenModel {
 public:
  static Result<std::unique_ptr<const TokenModel>> from_json(const Json& json);

  Status tokenize(std::string_view word, const BannedIds* banned, std::vector<ModelToken>& out,
                  WorkBudget* work) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  uint32_t unknown_id() const override { return unknown_; }
  bool splits_before(std::string_view mark) const override;
  bool can_cache_words() const override { return !sentencepiece_; }
  void write(Json& model) const override;

  // SentencePiece adds scores in single precision over the whole text, so the text before a word can decide
  // between nearly equal segmentations. The text may still be split into words when no token crosses a mark:
  // `score` is the sum before the word on entry and the sum after it on return.
  bool sentencepiece() const { return sentencepiece_; }
  bool no_token_crosses(std::string_view mark) const;
  Status tokenize_after(std::string_view word, const BannedIds* banned, float& score,
                        std::vector<ModelToken>& out) const;
  // Whether the word is segmented the same way after every score that score_allows_caching() accepts: its
  // best path wins at each position by more than all rounding errors.
  bool segmentation_is_stable(std::string_view word, const BannedIds* banned) const;
  bool score_allows_caching(float score) const;
  float score_after(uint32_t id, float score) const;

 private:
  Unigram() = default;
  template <class Score>
  Status viterbi(std::string_view word, const BannedIds* banned, Score& score, std::vector<ModelToken>& out,
                 Score* margin = nullptr) const;
  void emit(std::string_view word, ModelToken piece, const BannedIds* banned,
            std::vector<ModelToken>& out) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  ByteTrie trie_;
  uint32_t unknown_ = kNoId;
  double unknown_score_ = 0;
  bool byte_fallback_ = false, fuse_unknown_ = true;
  bool sentencepiece_ = false;  // exactly as SentencePiece: single precision, over the whole text
  std::vector<uint32_t> byte_ids_;
};

}  // namespace makar
