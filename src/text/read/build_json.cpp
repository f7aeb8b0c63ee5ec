#include "text/read/build_json.h"

#include "base/utf8.h"
#include "text/vocabulary.h"

namespace makar {

Json empty_tokenizer() {
  return {{"version", "1.0"},          {"truncation", nullptr},
          {"padding", nullptr},        {"added_tokens", Json::array()},
          {"normalizer", nullptr},     {"pre_tokenizer", nullptr},
          {"post_processor", nullptr}, {"decoder", nullptr},
          {"model", Json::object()}};
}

Json added_token(uint32_t id, std::string_view content, bool special) {
  return {{"id", id},
          {"content", std::string(content)},
          {"single_word", false},
          {"lstrip", false},
          {"rstrip", false},
          {"normalized", false},
          {"special", special}};
}

Json template_processor(const std::vector<std::pair<std::string, uint32_t>>& before,
                        const std::vector<std::pair<std::string, uint32_t>>& after) {
  Json specials = Json::object();
  const auto special = [&](const std::pair<std::string, uint32_t>& token, int type) -> Json {
    specials[token.first] = {{"id", token.first}, {"ids", {token.second}}, {"tokens", {token.first}}};
    return {{"SpecialToken", {{"id", token.first}, {"type_id", type}}}};
  };
  const auto add_sequence = [&](const char* sequence, int type, Json& list) {
    for (const auto& token : before) list.push_back(special(token, type));
    list.push_back({{"Sequence", {{"id", sequence}, {"type_id", type}}}});
    for (const auto& token : after) list.push_back(special(token, type));
  };
  Json single = Json::array(), pair = Json::array();
  add_sequence("A", 0, single);
  add_sequence("A", 0, pair);
  add_sequence("B", 1, pair);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", specials}};
}

Json byte_level_stage(bool prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Json split_stage(const std::string& pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Json sequence_stage(const char* key, Json parts) { return {{"type", "Sequence"}, {key, std::move(parts)}}; }

Json bpe_model(Json vocab, Json merges, bool ignore_merges) {
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"ignore_merges", ignore_merges}};
  model["vocab"] = std::move(vocab);
  model["merges"] = std::move(merges);
  return model;
}

void put_token(Json& vocab, std::string token, uint32_t id) {
  auto& fields = static_cast<std::vector<Json::object_t::value_type>&>(vocab.get_ref<Json::object_t&>());
  fields.emplace_back(std::move(token), Json(id));
}

Json merges_by_score(const std::vector<std::string>& pieces, const std::vector<uint32_t>& order,
                     const std::vector<bool>& usable) {
  constexpr size_t kMaxPieceBytes = 4096;  // bounds the work, which is quadratic in the size
  Vocabulary usable_pieces;
  for (uint32_t id = 0; id < pieces.size(); ++id)
    if (usable[id]) usable_pieces.add(pieces[id], id);
  Json merges = Json::array();
  for (const uint32_t id : order) {
    const std::string& piece = pieces[id];
    if (!usable[id] || piece.size() > kMaxPieceBytes) continue;
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      if (is_utf8_continuation(piece[cut])) continue;
      std::string left = piece.substr(0, cut), right = piece.substr(cut);
      if (usable_pieces.find(left) == kNoId || usable_pieces.find(right) == kNoId) continue;
      merges.push_back(Json::array({std::move(left), std::move(right)}));
    }
  }
  return merges;
}

}  // namespace makar
