// Short ways for two more kinds of pipeline, with the same results:
// - marked: blanks become U+2581 (and one may be put before the text), BPE over words that start with the
// mark;
// - BERT: text between blanks that is all ASCII, lower-cased and cut at punctuation.
#pragma once
#include <functional>

#include "text/pipeline.h"

namespace makar {

struct DirectWords {
  enum class Kind { kNone, kMarked, kBert };
  Kind kind = Kind::kNone;
  bool prepend = false, first_only = false;  // marked
  bool lowercase = false;                    // BERT
};

// What the sections amount to; `mark` as in Tokenizer::Impl.
DirectWords direct_words(const Json& normalizer, const Json& pre_tokenizer, const std::string& mark);

// Appends the tokens of well-formed `text`. kBert hands parts that are not ASCII to `other`.
Status run_marked(const Tokenizer::Impl& impl, std::string_view text, uint32_t base,
                  const EncodeOptions& options, Workspace& work, TokenSink& sink);
Status run_bert(const Tokenizer::Impl& impl, std::string_view text, uint32_t base,
                const EncodeOptions& options, Workspace& work, TokenSink& sink,
                const std::function<Status(std::string_view, uint32_t)>& other);

}  // namespace makar
