#include "text/read/sentencepiece.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "text/base64.h"
#include "text/read/build_json.h"
#include "text/read/read.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

namespace makar {
namespace {

using Piece = SentencePieceModel::Piece;

Json replace_stage(Json pattern, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", std::move(pattern)}, {"content", content}};
}

Json normalizer(const SentencePieceModel& model, bool first_only) {
  Json parts = Json::array();
  if (!model.character_map.empty())
    parts.push_back({{"type", "Precompiled"},
                     {"precompiled_charsmap", encode_base64(model.character_map)},
                     {"longest_match", true}});
  if (model.remove_extra_whitespaces) {
    parts.push_back(replace_stage({{"Regex", "\\A +| +\\z"}}, ""));
    parts.push_back(replace_stage({{"Regex", " {2,}"}}, " "));
  }
  if (model.add_dummy_prefix && !model.whitespace_as_suffix) {
    Json prepend = {{"type", "Prepend"}, {"prepend", model.escape_whitespaces ? kBlankMark : " "}};
    if (first_only) prepend["first_only"] = true;
    parts.push_back(std::move(prepend));
  }
  if (model.escape_whitespaces) parts.push_back(replace_stage({{"String", " "}}, kBlankMark));
  // Trailing marks that the text already contained are removed too.
  if (model.escape_whitespaces && model.remove_extra_whitespaces)
    parts.push_back(replace_stage({{"Regex", std::string(kBlankMark) + "+\\z"}}, ""));
  return sequence_stage("normalizers", std::move(parts));
}

Json decoder(const SentencePieceModel& model, const std::string& unknown) {
  Json parts = Json::array();
  if (!unknown.empty()) parts.push_back(replace_stage({{"String", unknown}}, model.unk_surface));
  parts.push_back(replace_stage({{"String", kBlankMark}}, " "));
  if (model.byte_fallback) parts.push_back({{"type", "ByteFallback"}});
  parts.push_back({{"type", "Fuse"}});
  if (model.add_dummy_prefix)
    parts.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return sequence_stage("decoders", std::move(parts));
}

Json unigram(const SentencePieceModel& model, int unknown) {
  Json vocab = Json::array();
  float best = std::numeric_limits<float>::min();  // as in SentencePiece: never negative
  for (const Piece& piece : model.pieces)
    if (piece.type == SentencePieceModel::kNormal) best = std::max(best, piece.score);
  for (const Piece& piece : model.pieces) {
    // SentencePiece's score of a user-defined piece: the best score per byte, minus 0.1. Such pieces are also
    // added tokens, which are matched before the model runs, so the score rarely matters.
    const double score = piece.type == SentencePieceModel::kUserDefined
                             ? static_cast<double>(piece.text.size()) * best - 0.1
                             : static_cast<double>(piece.score);
    vocab.push_back(Json::array({piece.text, score}));
  }
  Json out = {{"type", "Unigram"}};
  if (unknown >= 0) out["unk_id"] = unknown;
  out["byte_fallback"] = model.byte_fallback;
  out["sentencepiece"] = true;
  out["vocab"] = std::move(vocab);
  return out;
}

Json bpe(const SentencePieceModel& model, const std::string& unknown) {
  std::vector<std::string> texts;
  std::vector<bool> usable;
  Json vocab = Json::object();
  for (const Piece& piece : model.pieces) {
    put_token(vocab, piece.text, static_cast<uint32_t>(texts.size()));
    usable.push_back(piece.type == SentencePieceModel::kNormal ||
                     piece.type == SentencePieceModel::kUserDefined);
    texts.push_back(piece.text);
  }
  std::vector<uint32_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return model.pieces[a].score > model.pieces[b].score; });
  Json out = {{"type", "BPE"},
              {"dropout", nullptr},
              {"unk_token", nullptr},
              {"continuing_subword_prefix", nullptr},
              {"end_of_word_suffix", nullptr},
              {"fuse_unk", true},
              {"byte_fallback", model.byte_fallback},
              {"ignore_merges", false},
              {"rank_by_piece", true}};
  if (!unknown.empty()) out["unk_token"] = unknown;
  out["vocab"] = std::move(vocab);
  out["merges"] = merges_by_score(texts, order, usable);
  return out;
}

Status check_pieces(const SentencePieceModel& model) {
  Vocabulary seen;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const Piece& piece = model.pieces[i];
    if (!std::isfinite(piece.score))
      return error_at(fmt::format("piece {}", i), "has a score that is not finite");
    if (piece.text.empty()) return error_at(fmt::format("piece {}", i), "is empty");
    if (seen.find(piece.text) != kNoId)
      return error_at(fmt::format("piece {}", i), "'{}' already exists as piece {}", piece.text.substr(0, 80),
                      seen.find(piece.text));
    seen.add(piece.text, static_cast<uint32_t>(i));
  }
  return Done{};
}

}  // namespace

Result<Json> sentencepiece_to_json(const SentencePieceModel& model, const std::string& place) {
  if (const Status status = check_pieces(model); !status.ok()) return status.error().in(place);
  if (model.kind != SentencePieceModel::kUnigram && model.kind != SentencePieceModel::kBpe)
    return error_of(Error::Kind::kUnsupported, place,
                    "SentencePiece models of type {} are not supported; unigram (1) and bpe (2) are",
                    model.kind);
  if (model.whitespace_as_suffix)
    return error_of(Error::Kind::kUnsupported, place, "treat_whitespace_as_suffix is not supported");
  Json json = empty_tokenizer();
  int unknown = -1;
  bool user_defined = false;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    const bool control =
        piece.type == SentencePieceModel::kControl || piece.type == SentencePieceModel::kUnknown;
    const bool user = piece.type == SentencePieceModel::kUserDefined;
    if (piece.type == SentencePieceModel::kUnknown) unknown = static_cast<int>(id);
    if (control || user)
      json["added_tokens"].push_back(added_token(static_cast<uint32_t>(id), piece.text, control));
    user_defined = user_defined || user;
  }
  const std::string unknown_text = unknown >= 0 ? model.pieces[unknown].text : "";
  // User-defined pieces split the text into parts; only the first part gets the dummy prefix.
  json["normalizer"] = normalizer(model, user_defined);
  json["decoder"] = decoder(model, unknown_text);
  json["model"] =
      model.kind == SentencePieceModel::kUnigram ? unigram(model, unknown) : bpe(model, unknown_text);
  return json;
}

Result<Json> sentencepiece_to_json(std::string_view bytes, const std::string& place) {
  const auto model = SentencePieceModel::parse(bytes);
  if (!model.ok()) return model.error().in(place);
  return sentencepiece_to_json(*model, place);
}

}  // namespace makar
