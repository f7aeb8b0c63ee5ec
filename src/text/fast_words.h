// Fast paths for two more kinds of pipeline, with the same results:
// - marked: blanks become U+2581 (optionally one is prepended), BPE over words that start with the mark;
// - BERT: ASCII text between blanks, lower-cased and split at punctuation.
#pragma once
#include <functional>

#include "text/pipeline.h"

namespace makar {

struct FastWords {
  enum class Kind { kNone, kMarked, kBert };
  Kind kind = Kind::kNone;
  bool prepend = false, first_only = false;  // marked
  bool lowercase = false;                    // BERT
};

// The fast path for these sections of a tokenizer.json; `mark`: Tokenizer::Impl::mark.
FastWords fast_words_for(const Json& normalizer, const Json& pre_tokenizer, const std::string& mark);

// Appends the tokens of valid `text`. run_bert passes parts that are not ASCII to `encode_other`.
Status run_marked(const Tokenizer::Impl& impl, std::string_view text, uint32_t base,
                  const EncodeOptions& options, Workspace& work, TokenSink& sink);
Status run_bert(const Tokenizer::Impl& impl, std::string_view text, uint32_t base,
                const EncodeOptions& options, Workspace& work, TokenSink& sink,
                const std::function<Status(std::string_view, uint32_t)>& encode_other);

}  // namespace makar
