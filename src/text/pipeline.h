// The stages of a tokenizer: the implementation of Tokenizer.
#pragma once
#include <functional>
#include <memory>
#include <mutex>

#include "text/added_vocabulary.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/model.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/scan.h"
#include "text/tokenizer.h"
#include "text/word_cache.h"

namespace makar {

// The buffers of one encode call, reused between calls.
struct Workspace {
  WordCache cache;  // for calls where every id is allowed
  // For plain text, where special ids are banned; created on first use.
  std::unique_ptr<WordCache> plain_cache;
  std::vector<ModelToken> tokens;
};

struct FastWords;
struct FastSentencePiece;

// Collects tokens. Offsets are stored only on request.
struct TokenSink {
  std::vector<uint32_t>& ids;
  std::vector<Span>* offsets;
  void put(uint32_t id, Span span) {
    ids.push_back(id);
    if (offsets) offsets->push_back(span);
  }
};

struct Tokenizer::Impl {
  Json pipeline_json;  // the tokenizer.json without vocabulary and merges
  std::unique_ptr<const Normalizer> normalizer;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;
  std::unique_ptr<const TokenModel> model;
  std::unique_ptr<const PostProcessor> post_processor;
  std::unique_ptr<const Decoder> decoder;
  AddedVocabulary added;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
  const Bpe* raw_bpe = nullptr;  // the model, when words are raw bytes
  bool byte_level = false;
  std::string mark;  // text may be split before this string (TokenModel::splits_before); "": it may not
  BannedIds banned;  // special ids except the unknown token
  Scanner::Kind fast_bpe = Scanner::Kind::kNone;  // the fast path of fast_bpe.h
  std::shared_ptr<const FastWords> fast_words;    // the fast path of fast_words.h; null for none
  std::shared_ptr<const FastSentencePiece> fast_sentencepiece;  // the fast path of fast_sentencepiece.h

  // Appends the tokens of a text, without the tokens that the post-processor adds.
  Status run(std::string_view text, const EncodeOptions& options, TokenSink sink) const;
  // The same for valid text that is already split into control tokens and text. An added token found in the
  // text after normalisation stays text if `is_text` returns true for its bytes.
  using IsText = std::function<bool(const AddedToken& token, Span bytes)>;
  Status run_parts(std::string_view text, const std::vector<AddedVocabulary::TextOrToken>& parts,
                   const EncodeOptions& options, TokenSink sink, const IsText& is_text) const;
  // The words that the model gets, for explanations.
  Result<std::vector<Words>> words(std::string_view text, const EncodeOptions& options) const;

  // Writes the tokens of one word to work.tokens.
  Status tokenize(std::string_view word, const EncodeOptions& options, Workspace& work) const;
  WordCache& cache_for(const EncodeOptions& options, Workspace& work) const;

  std::unique_ptr<Workspace> take_workspace() const;
  void return_workspace(std::unique_ptr<Workspace> workspace) const;

 private:
  // Runs a fast path for unchanged, valid text; false when there is none and the pipeline must run.
  Result<bool> run_fast_path(std::string_view text, uint32_t base, const EncodeOptions& options,
                             Workspace& work, TokenSink& sink) const;
  Status run_fragment(AlignedText text, const EncodeOptions& options, Workspace& work, TokenSink& sink,
                      const IsText& is_text = {}) const;
  Status pre_tokenize(Words& words) const;
  Status run_words(const Words& words, const EncodeOptions& options, Workspace& work, TokenSink& sink) const;
  bool bans_special_ids(const EncodeOptions& options) const {
    return options.special_text != SpecialText::kParse && !banned.empty();
  }

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace makar
