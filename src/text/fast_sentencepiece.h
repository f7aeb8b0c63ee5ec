// The fast path for SentencePiece Unigram models as makar's reader writes them, for ids without offsets: all
// normaliser stages in one pass, and cached words where their segmentation does not depend on context.
#pragma once
#include <array>
#include <optional>

#include "text/character_map.h"
#include "text/pipeline.h"
#include "text/unigram.h"

namespace makar {

struct FastSentencePiece {
  const Unigram* model;
  CharacterMap map;
  std::array<bool, 256> plain{};  // ASCII that the map leaves unchanged before any other ASCII
  bool trims = false;             // removes blanks at the ends and collapses runs of blanks
  bool prepend = false, first_only = false;

  // nullopt when the sections describe another pipeline.
  static std::optional<FastSentencePiece> find(const Json& normalizer, const Json& pre_tokenizer,
                                               const TokenModel& model);
  // Normalises valid text: equals the result of the normaliser's stages.
  std::string normalize(std::string_view text, bool first) const;
};

// Appends the ids of valid `text`.
Status run_sentencepiece(const Tokenizer::Impl& impl, std::string_view text, uint32_t base,
                         const EncodeOptions& options, Workspace& work, TokenSink& sink);

}  // namespace makar
