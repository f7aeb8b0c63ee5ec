// A short way for SentencePiece's Unigram models as our reader writes them, for ids without offsets: the
// stages of the normaliser in one pass, and words cut before seen again where their cut is beyond doubt.
#pragma once
#include <array>
#include <optional>

#include "text/character_map.h"
#include "text/pipeline.h"
#include "text/unigram.h"

namespace makar {

struct DirectSentencePiece {
  const Unigram* model;
  CharacterMap map;
  std::array<bool, 256> plain{};  // ASCII that the map leaves, whatever ASCII follows
  bool trims = false;             // blanks at the ends go, runs of blanks become one
  bool prepend = false, first_only = false;

  // Nothing when the sections are something else.
  static std::optional<DirectSentencePiece> find(const Json& normalizer, const Json& pre_tokenizer,
                                                 const TokenModel& model);
  // Well-formed text as the model sees it: what the stages of the normaliser would give.
  std::string normalize(std::string_view text, bool first) const;
};

// Appends the ids of well-formed `text`.
Status run_sentencepiece(const Tokenizer::Impl& impl, std::string_view text, uint32_t base,
                         const EncodeOptions& options, Workspace& work, TokenSink& sink);

}  // namespace makar
