// SentencePiece models into tokenizer.json values, and back for the kinds they can hold.
#pragma once
#include "base/json.h"
#include "text/read/sentencepiece_model.h"
#include "text/tokenizer.h"

namespace makar {

Result<Json> sentencepiece_to_json(const SentencePieceModel& model, const std::string& place);

// kUnsupported when the pipeline does something that SentencePiece cannot.
Result<SentencePieceModel> json_to_sentencepiece(const Json& json);

}  // namespace makar
