// The short way for byte-level BPE: scan a word, look it up, write its ids. No normalised copy, no spans, no
// list of words; the same result as the pipeline, which tests hold it against.
#pragma once
#include "text/pipeline.h"
#include "text/scan.h"

namespace makar {

// Which scanner stands for the whole pre-tokenizer section, kNone when it does more or something else.
Scanner::Kind direct_kind(const Json& pre_tokenizer);

// Appends the tokens of well-formed `text`, which starts at byte `base` of the original.
Status run_direct(const Tokenizer::Impl& impl, Scanner::Kind kind, std::string_view text, uint32_t base,
                  const EncodeOptions& options, Workspace& work, TokenSink& sink);

}  // namespace makar
