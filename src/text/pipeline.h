// The parts of a tokenizer, put together; the inside of Tokenizer.
#pragma once
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

// What one running encode needs; kept and used again.
struct Workspace {
  WordCache cache;                         // every id allowed
  std::unique_ptr<WordCache> plain_cache;  // made when a plain word met a banned id
  std::vector<ModelToken> tokens;
  std::vector<AddedVocabulary::Part> parts;
};

struct DirectWords;
struct DirectSentencePiece;

// Where tokens go. Offsets are kept only when asked for.
struct TokenSink {
  std::vector<uint32_t>& ids;
  std::vector<Span>* offsets;
  void put(uint32_t id, Span span) {
    ids.push_back(id);
    if (offsets) offsets->push_back(span);
  }
};

struct Tokenizer::Impl {
  Json rest;  // the tokenizer.json without the vocabulary and the merges
  std::unique_ptr<const Normalizer> normalizer;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;
  std::unique_ptr<const TokenModel> model;
  std::unique_ptr<const PostProcessor> post_processor;
  std::unique_ptr<const Decoder> decoder;
  AddedVocabulary added;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
  const Bpe* raw_bpe = nullptr;  // the model, when words are bytes
  bool byte_level = false;
  std::string mark;  // a run of text may be cut before this (TokenModel::splits_before); "" when not
  Banned banned;     // special ids but the unknown one
  Scanner::Kind direct = Scanner::Kind::kNone;                      // the short way of direct.h
  std::shared_ptr<const DirectWords> direct_words;                  // those of direct_words.h, null for none
  std::shared_ptr<const DirectSentencePiece> direct_sentencepiece;  // that of direct_sentencepiece.h

  // Appends the tokens of a text, without those of the post-processor.
  Status run(std::string_view text, const EncodeOptions& options, TokenSink sink) const;
  // The same for well-formed text already cut into its control tokens and the text between them.
  Status run_parts(std::string_view text, const std::vector<AddedVocabulary::Part>& parts,
                   const EncodeOptions& options, TokenSink sink) const;
  // The words the model would see, for explanations.
  Result<std::vector<Words>> words(std::string_view text, const EncodeOptions& options) const;

  // The tokens of one word go to work.tokens.
  Status tokenize(std::string_view word, const EncodeOptions& options, Workspace& work) const;
  WordCache& cache_for(const EncodeOptions& options, Workspace& work) const;

  std::unique_ptr<Workspace> take_workspace() const;
  void give_back(std::unique_ptr<Workspace> workspace) const;

 private:
  // A short way for unchanged, well-formed text; false when there is none and the pipeline must run.
  Result<bool> run_short(std::string_view text, uint32_t base, const EncodeOptions& options, Workspace& work,
                         TokenSink& sink) const;
  Status run_fragment(AlignedText text, const EncodeOptions& options, Workspace& work, TokenSink& sink) const;
  Status pre_tokenize(Words& words) const;
  Status run_words(const Words& words, const EncodeOptions& options, Workspace& work, TokenSink& sink) const;
  bool use_plain(const EncodeOptions& options) const {
    return options.special_text != SpecialText::kParse && !banned.empty();
  }

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace makar
