// Unigram language model (Kudo, 2018): the cut with the highest sum of log-probabilities, by Viterbi.
#pragma once
#include "text/byte_trie.h"
#include "text/model.h"

namespace makar {

class Unigram : public Model {
 public:
  static Result<std::unique_ptr<const Model>> from_json(const Json& json);

  Status tokenize(std::string_view word, const Banned* banned, std::vector<ModelToken>& out) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  uint32_t unknown_id() const override { return unknown_; }
  bool splits_before(std::string_view mark) const override;
  void write(Json& model) const override;

 private:
  Unigram() = default;
  template <class Score>
  Status viterbi(std::string_view word, const Banned* banned, std::vector<ModelToken>& out) const;
  void emit(std::string_view word, ModelToken piece, const Banned* banned,
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
