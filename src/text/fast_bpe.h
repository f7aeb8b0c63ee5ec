// The fast path for byte-level BPE: scan a word, look it up, append its ids. No normalised copy and no
// list of words; tests check that the result equals the pipeline's.
#pragma once
#include "text/pipeline.h"
#include "text/scan.h"

namespace makar {

// The scanner that is equivalent to the whole pre-tokenizer section; kNone when there is none.
Scanner::Kind fast_bpe_kind(const Json& pre_tokenizer);

// Appends the tokens of valid `text`, which starts at byte `base` of the original.
Status run_fast_bpe(const Tokenizer::Impl& impl, Scanner::Kind kind, std::string_view text, uint32_t base,
                    const EncodeOptions& options, Workspace& work, TokenSink& sink);

}  // namespace makar
