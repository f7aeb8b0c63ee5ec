// Converts SentencePiece models to tokenizer.json values, and back where SentencePiece can represent them.
#pragma once
#include "base/json.h"
#include "text/read/sentencepiece_model.h"
#include "text/tokenizer.h"

namespace makar {

Result<Json> sentencepiece_to_json(const SentencePieceModel& model, const std::string& place);

// kUnsupported when SentencePiece cannot represent the pipeline.
Result<SentencePieceModel> json_to_sentencepiece(const Json& json);

}  // namespace makar
