// Byte-pair encoding (Sennrich et al., 2016): the lowest-ranked pair merges first; of equal ranks, the
// leftmost.
#pragma once
#include <array>
#include <optional>
#include <string>

#include "text/merge_table.h"
#include "text/model.h"

namespace makar {

class Bpe : public TokenModel {
 public:
  static Result<std::unique_ptr<const TokenModel>> from_json(const Json& json, bool raw_bytes);

  Status tokenize(std::string_view word, const BannedIds* banned, std::vector<ModelToken>& out,
                  WorkBudget* work) const override;
  Status tokenize_dropout(std::string_view word, uint64_t seed, std::vector<ModelToken>& out,
                          WorkBudget* work) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  uint32_t unknown_id() const override { return unknown_; }
  bool deterministic() const override { return dropout_ <= 0; }
  bool splits_before(std::string_view mark) const override;
  const Joins* joins() const override { return joins_.get(); }
  void write(Json& model) const override;

  // One merge in the explanation of a word.
  struct Step {
    std::vector<ModelToken> tokens;  // after the merge; the first step has the symbols before any merge
    uint32_t rank = UINT32_MAX;
  };
  std::vector<Step> explain(std::string_view word) const;
  // Byte-level fast path: the id of a whole word, kNoId when it is not in the vocabulary.
  uint32_t whole_word(std::string_view word) const {
    return raw_ ? bytes_.find(word) : vocabulary_.find(word);
  }
  bool raw_bytes() const { return raw_; }
  // For raw bytes: the bytes of a token, nullopt for an id without a token.
  std::optional<std::string_view> bytes(uint32_t id) const { return bytes_.token(id); }

 private:
  Bpe() = default;
  // Appends the symbols of a word, before any merge.
  void append_symbols(std::string_view word, const BannedIds* banned, std::vector<ModelToken>& out) const;
  Merge merge_of(uint32_t left, uint32_t right, const BannedIds* banned) const;
  // Both merge the symbols from out[first] on, with the same result.
  void merge_short(const BannedIds* banned, std::vector<ModelToken>& out, size_t first) const;
  Status merge_long(const BannedIds* banned, std::vector<ModelToken>& out, size_t first,
                    WorkBudget* work) const;
  Status read_merges(const Json& json);
  void add_merge(uint32_t left, uint32_t right, uint32_t merged);
  void find_joins();

  Vocabulary vocabulary_;
  Vocabulary bytes_;                      // raw: the same tokens as bytes
  std::array<uint32_t, 256> byte_ids_{};  // raw: the id of each single byte; byte fallback: of each <0xXX>
  bool has_all_bytes_ = false;
  MergeTable merges_;
  std::vector<std::pair<uint32_t, uint32_t>> order_;  // the merges in file order
  bool raw_ = false, byte_fallback_ = false, fuse_unknown_ = false, ignore_merges_ = false,
       rank_by_piece_ = false;
  double dropout_ = 0;
  std::string prefix_, suffix_;
  uint32_t unknown_ = kNoId;
  std::unique_ptr<Joins> joins_;
};

}  // namespace makar
