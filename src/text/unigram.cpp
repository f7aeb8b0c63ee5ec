#include "text/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/field.h"
#include "text/unicode.h"

namespace makar {
namespace {

constexpr double kUnknownPenalty = 10;  // below the rarest token, as in SentencePiece

// The margin is computed for words of at most this many bytes, after scores of at most this magnitude.
constexpr size_t kMaxMarginBytes = 31;
constexpr float kMaxMarginScore = 65536;

template <class Score>
struct Node {
  Score score = 0;
  Score second = -std::numeric_limits<Score>::infinity();  // of the second-best path to this position
  uint32_t begin = UINT32_MAX;
  uint32_t id = kNoId;
};

}  // namespace

Status Unigram::tokenize(std::string_view word, const BannedIds* banned, std::vector<ModelToken>& out,
                         WorkBudget* work) const {
  float score_f32 = 0;
  double score_f64 = 0;
  return sentencepiece_ ? viterbi(word, banned, score_f32, out) : viterbi(word, banned, score_f64, out);
}

Status Unigram::tokenize_after(std::string_view word, const BannedIds* banned, float& score,
                               std::vector<ModelToken>& out) const {
  return viterbi(word, banned, score, out);
}

float Unigram::score_after(uint32_t id, float score) const {
  return score + static_cast<float>(id == unknown_ ? unknown_score_ : scores_[id]);
}

bool Unigram::segmentation_is_stable(std::string_view word, const BannedIds* banned) const {
  if (word.size() > kMaxMarginBytes) return false;
  double score = 0, margin = std::numeric_limits<double>::infinity();
  std::vector<ModelToken> out;
  if (!viterbi(word, banned, score, out, &margin).ok()) return false;
  // Fused unknown characters and bytes hide how many scores were added: the margin of such a word is unknown.
  for (const ModelToken& token : out)
    if (vocabulary_.token(token.id) != word.substr(token.begin, token.end - token.begin)) return false;
  // The computed difference of two paths of n additions is off by at most n rounding errors each.
  const double rounding = (double{kMaxMarginScore} + 2 * std::fabs(score)) * 0x1p-24;
  return margin > 2 * static_cast<double>(word.size() + 1) * rounding;
}

bool Unigram::score_allows_caching(float score) const { return std::fabs(score) < kMaxMarginScore; }

template <class Score>
Status Unigram::viterbi(std::string_view word, const BannedIds* banned, Score& score,
                        std::vector<ModelToken>& out, Score* margin) const {
  const auto size = static_cast<uint32_t>(word.size());
  std::vector<Node<Score>> best(size + 1);
  best[0].score = score;
  for (uint32_t at = 0; at < size;) {
    const uint32_t character = std::min(utf8_size(word[at]), size - at);
    const Score score_here = best[at].score;
    bool has_character_token = false;
    const auto offer = [&](uint32_t end, Score sum, uint32_t id) {
      Node<Score>& node = best[end];
      if (node.begin == UINT32_MAX || sum > node.score)
        node = {sum, node.begin == UINT32_MAX ? node.second : node.score, at, id};
      else if (sum > node.second)
        node.second = sum;
    };
    trie_.prefixes(word.substr(at), [&](size_t length, uint32_t id) {
      if (banned && id < banned->size() && (*banned)[id]) return true;
      offer(at + static_cast<uint32_t>(length), score_here + static_cast<Score>(scores_[id]), id);
      has_character_token = has_character_token || length == character;
      return true;
    });
    if (!has_character_token) {
      if (unknown_ == kNoId)
        return error_at("unk_id", "a character is not in the vocabulary, and the model has no unknown token");
      offer(at + character, score_here + static_cast<Score>(unknown_score_), unknown_);
    }
    at += character;
  }

  const size_t first = out.size();
  std::vector<ModelToken> pieces;
  for (uint32_t end = size; end > 0; end = best[end].begin) {
    const Node<Score>& node = best[end];
    if (margin) *margin = std::min(*margin, node.score - node.second);
    if (fuse_unknown_ && node.id == unknown_ && !pieces.empty() && pieces.back().id == unknown_)
      pieces.back().begin = node.begin;
    else
      pieces.push_back({node.id, node.begin, end});
  }
  score = best[size].score;
  out.reserve(first + pieces.size());
  for (size_t i = pieces.size(); i-- > 0;) emit(word, pieces[i], banned, out);
  return Done{};
}

void Unigram::emit(std::string_view word, ModelToken piece, const BannedIds* banned,
                   std::vector<ModelToken>& out) const {
  auto [id, begin, end] = piece;
  if (id == unknown_) {
    const std::string_view part = word.substr(begin, end - begin);
    const auto has_byte_token = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)] != kNoId; };
    // Adjacent unknown characters may spell a token (the Hugging Face library looks it up).
    if (const uint32_t token_id = vocabulary_.find(part);
        token_id != kNoId && !sentencepiece_ &&
        !(banned && token_id < banned->size() && (*banned)[token_id])) {
      id = token_id;
    } else if (byte_fallback_ && std::all_of(part.begin(), part.end(), has_byte_token)) {
      for (const char c : part) out.push_back({byte_ids_[static_cast<unsigned char>(c)], begin, end});
      return;
    }
  }
  out.push_back({id, begin, end});
}

bool Unigram::splits_before(std::string_view mark) const {
  // In single precision, the score of the preceding text decides between equal paths: do not split the text.
  return !sentencepiece_ && no_token_crosses(mark);
}

bool Unigram::no_token_crosses(std::string_view mark) const {
  if (vocabulary_.find(mark) == kNoId) return false;
  for (uint32_t id = 0; id < vocabulary_.size(); ++id) {
    const auto token = vocabulary_.token(id);
    if (!token) continue;
    // Inside a token, a mark may only follow marks.
    size_t lead = 0;
    while (token->substr(lead).starts_with(mark)) lead += mark.size();
    if (token->find(mark, lead) != std::string_view::npos) return false;
  }
  return true;
}

void Unigram::write(Json& model) const {
  Json vocab = Json::array();
  for (uint32_t id = 0; id < vocabulary_.size(); ++id)
    vocab.push_back({std::string(vocabulary_.token(id).value_or("")), scores_[id]});
  model["vocab"] = std::move(vocab);
}

Result<std::unique_ptr<const TokenModel>> Unigram::from_json(const Json& json) {
  std::unique_ptr<Unigram> model(new Unigram());
  MAKAR_TRY(const Json* list, list_field(json, "vocab"));
  if (list->size() > Vocabulary::kMaxId)
    return error_of(Error::Kind::kLimit, "vocab", "has {} tokens; the limit is {}", list->size(),
                    Vocabulary::kMaxId);
  double lowest = 0;
  for (size_t id = 0; id < list->size(); ++id) {
    const Json& entry = (*list)[id];
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number() ||
        !std::isfinite(entry[1].get<double>()))
      return error_at(fmt::format("vocab[{}]", id), "expected [token, log-probability], found {}",
                      entry.dump().substr(0, 80));
    model->vocabulary_.add(entry[0].get_ref<const std::string&>(), static_cast<uint32_t>(id));
    model->scores_.push_back(entry[1].get<double>());
    lowest = id == 0 ? model->scores_.back() : std::min(lowest, model->scores_.back());
  }
  model->unknown_score_ = lowest - kUnknownPenalty;
  MAKAR_TRY(model->byte_fallback_, bool_field(json, "byte_fallback", false));
  MAKAR_TRY(model->fuse_unknown_, bool_field(json, "fuse_unk", true));
  if (find_field(json, "unk_id")) {
    MAKAR_TRY(const uint64_t unknown, count_field(json, "unk_id"));
    if (unknown >= list->size())
      return error_at("unk_id", "is {}, but the vocabulary has {} tokens", unknown, list->size());
    model->unknown_ = static_cast<uint32_t>(unknown);
  }
  model->byte_ids_.assign(256, kNoId);
  if (model->byte_fallback_)
    for (int b = 0; b < 256; ++b) model->byte_ids_[b] = model->vocabulary_.find(fmt::format("<0x{:02X}>", b));
  // SentencePiece never matches its byte and unknown pieces in the text; the Hugging Face library does.
  MAKAR_TRY(model->sentencepiece_, bool_field(json, "sentencepiece", false));
  std::vector<bool> never_matched(model->vocabulary_.size());
  if (model->sentencepiece_) {
    for (const uint32_t id : model->byte_ids_)
      if (id != kNoId) never_matched[id] = true;
    if (model->unknown_ != kNoId) never_matched[model->unknown_] = true;
  }
  std::vector<std::pair<std::string_view, uint32_t>> keys;
  for (uint32_t id = 0; id < model->vocabulary_.size(); ++id)
    if (const auto token = model->vocabulary_.token(id); token && is_valid_utf8(*token) && !never_matched[id])
      keys.emplace_back(*token, id);
  model->trie_.build(std::move(keys));
  return std::unique_ptr<const TokenModel>(std::move(model));
}

}  // namespace makar
