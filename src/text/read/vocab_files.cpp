// Reads vocab.json with merges.txt, and BERT's vocab.txt.
#include "text/pre_tokenizer.h"
#include "text/read/build_json.h"
#include "text/read/read.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

namespace makar {
namespace {

template <class F>
void each_line(std::string_view text, F f) {
  size_t number = 1;
  for (size_t at = 0; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    f(line, number);
    at = end + 1;
  }
}

}  // namespace

Result<Json> vocab_merges_to_json(std::string_view vocab, std::string_view merges, const std::string& place) {
  MAKAR_TRY(Json tokens, parse_json(vocab, place));
  if (!tokens.is_object()) return error_at(place, "expected an object that maps tokens to ids");
  Json merge_list = Json::array();
  std::string bad_line;
  each_line(merges, [&](std::string_view line, size_t number) {
    if (line.empty() || (number == 1 && line.starts_with("#version"))) return;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || !is_valid_utf8(line))
      bad_line = fmt::format("merges, line {}", number);
    else
      merge_list.push_back(
          Json::array({std::string(line.substr(0, space)), std::string(line.substr(space + 1))}));
  });
  if (!bad_line.empty()) return error_at(place + ": " + bad_line, "expected two tokens separated by a blank");
  Json json = empty_tokenizer();
  for (const auto& [token, id] : tokens.items())
    if (token.size() > 4 && token.starts_with("<|") && token.ends_with("|>") && id.is_number_unsigned() &&
        id.get<uint64_t>() <= Vocabulary::kMaxId)
      json["added_tokens"].push_back(added_token(id.get<uint32_t>(), token, true));
  json["pre_tokenizer"] = byte_level_stage(false, true);
  json["decoder"] = byte_level_stage(true, true);
  json["model"] = bpe_model(std::move(tokens), std::move(merge_list), false);
  return json;
}

Result<Json> bert_vocab_to_json(std::string_view text, bool lowercase, const std::string& place) {
  Json vocab = Json::object();
  Vocabulary seen;
  std::string problem;
  uint32_t id = 0;
  each_line(text, [&](std::string_view line, size_t number) {
    if (!problem.empty()) return;
    if (id > Vocabulary::kMaxId)
      problem = fmt::format("has more than {} tokens", Vocabulary::kMaxId);
    else if (!is_valid_utf8(line))
      problem = fmt::format("line {} is not UTF-8", number);
    else if (seen.find(line) == kNoId)
      put_token(vocab, std::string(line), id);
    if (problem.empty()) seen.add(line, id);
    ++id;
  });
  if (!problem.empty()) return error_at(place, "{}", problem);
  if (vocab.empty()) return error_at(place, "the vocabulary is empty");
  Json json = empty_tokenizer();
  for (const char* special : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    if (seen.find(special) != kNoId)
      json["added_tokens"].push_back(added_token(seen.find(special), special, true));
  json["normalizer"] = {{"type", "BertNormalizer"},
                        {"clean_text", true},
                        {"handle_chinese_chars", true},
                        {"strip_accents", nullptr},
                        {"lowercase", lowercase}};
  json["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  const uint32_t cls = seen.find("[CLS]"), sep = seen.find("[SEP]");
  if (cls != kNoId && sep != kNoId)
    json["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"[SEP]", sep}}, {"cls", {"[CLS]", cls}}};
  json["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  json["model"] = {{"type", "WordPiece"},
                   {"unk_token", "[UNK]"},
                   {"continuing_subword_prefix", "##"},
                   {"max_input_chars_per_word", 100}};
  json["model"]["vocab"] = std::move(vocab);
  return json;
}

}  // namespace makar
