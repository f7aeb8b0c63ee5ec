// tiktoken's ranks: the rank of a token is its id and the rank of the merge that gives it.
#include <algorithm>

#include "text/base64.h"
#include "text/byte_alphabet.h"
#include "text/field.h"
#include "text/pre_tokenizer.h"
#include "text/read/build_json.h"
#include "text/read/patterns.h"
#include "text/read/read.h"
#include "text/vocabulary.h"

namespace makar {
namespace {

struct KnownEncoding {
  const char* name;
  size_t ranks;
  const char* pattern;
  std::vector<std::pair<const char*, uint32_t>> specials;
};

const std::vector<KnownEncoding>& known_encodings() {
  static const std::vector<KnownEncoding> table = {
      {"gpt2", 50256, kGpt2Pattern, {{"<|endoftext|>", 50256}}},
      {"r50k_base", 50256, kGpt2Pattern, {{"<|endoftext|>", 50256}}},
      {"p50k_base", 50280, kGpt2Pattern, {{"<|endoftext|>", 50256}}},
      {"cl100k_base",
       100256,
       kCl100kPattern,
       {{"<|endoftext|>", 100257},
        {"<|fim_prefix|>", 100258},
        {"<|fim_middle|>", 100259},
        {"<|fim_suffix|>", 100260},
        {"<|endofprompt|>", 100276}}},
      {"o200k_base", 199998, kO200kPattern, {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}},
      {"qwen",
       151643,
       kQwen2Pattern,
       {{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}}},
      {"llama3",
       128000,
       kCl100kPattern,
       {{"<|begin_of_text|>", 128000},
        {"<|end_of_text|>", 128001},
        {"<|start_header_id|>", 128006},
        {"<|end_header_id|>", 128007},
        {"<|eot_id|>", 128009}}},
  };
  return table;
}

struct Ranks {
  std::vector<std::pair<std::string, uint32_t>> tokens;  // bytes, rank
  std::string pattern;
  std::vector<std::pair<std::string, uint32_t>> specials;
};

Status add_token(Ranks& ranks, std::string_view base64, uint64_t rank, const std::string& place) {
  auto bytes = decode_base64(base64);
  if (!bytes || bytes->empty()) return error_at(place, "'{}' is not valid base64", base64.substr(0, 80));
  if (rank > Vocabulary::kMaxId)
    return error_at(place, "the rank {} exceeds the maximum {}", rank, Vocabulary::kMaxId);
  ranks.tokens.emplace_back(std::move(*bytes), static_cast<uint32_t>(rank));
  return Done{};
}

Result<uint64_t> parse_rank(std::string_view text, const std::string& place) {
  uint64_t value = 0;
  if (text.empty() || text.size() > 10)
    return error_at(place, "expected a rank, found '{}'", text.substr(0, 80));
  for (const char c : text) {
    if (c < '0' || c > '9') return error_at(place, "expected a rank, found '{}'", text.substr(0, 80));
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

Result<Ranks> read_lines(std::string_view text) {
  Ranks ranks;
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const std::string place = fmt::format("line {}", ++number);
    at = end + 1;
    if (line.empty()) continue;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) return error_at(place, "expected a token in base64 and its rank");
    std::string_view digits = line.substr(space + 1);
    if (digits.ends_with('\r')) digits.remove_suffix(1);
    MAKAR_TRY(const uint64_t rank, parse_rank(digits, place));
    MAKAR_RETURN_IF_ERROR(add_token(ranks, line.substr(0, space), rank, place));
  }
  return ranks;
}

// {"pat_str", "special_tokens", "bpe_ranks": "! FIRST token token ...\n..."}
Result<Ranks> read_packed(const Json& json) {
  Ranks ranks;
  MAKAR_TRY(ranks.pattern, string_field(json, "pat_str"));
  MAKAR_TRY(const std::string packed, string_field(json, "bpe_ranks"));
  if (const Json* specials = find_field(json, "special_tokens"); specials && specials->is_object())
    for (const auto& [token, id] : specials->items()) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > Vocabulary::kMaxId)
        return error_at("special_tokens", "'{}' has no valid id", token.substr(0, 80));
      ranks.specials.emplace_back(token, id.get<uint32_t>());
    }
  for (size_t at = 0; at < packed.size();) {
    const size_t end = std::min(packed.find('\n', at), packed.size());
    const std::string_view line = std::string_view(packed).substr(at, end - at);
    uint64_t rank = 0;
    size_t word_number = 0;
    for (size_t i = 0; i < line.size();) {
      const size_t stop = std::min(line.find(' ', i), line.size());
      const std::string_view word = line.substr(i, stop - i);
      i = stop + 1;
      if (word_number++ == 0) continue;  // the '!' mark
      if (word_number == 2) {
        MAKAR_TRY(rank, parse_rank(word, "bpe_ranks"));
        continue;
      }
      MAKAR_RETURN_IF_ERROR(add_token(ranks, word, rank++, "bpe_ranks"));
    }
    at = end + 1;
  }
  return ranks;
}

// The two tokens that merge into `token`: the parts that remain when only lower ranks may merge.
bool find_parents(const Vocabulary& ranks, const std::string& token, uint32_t rank, std::string& left,
                  std::string& right) {
  std::vector<size_t> cuts;  // starts of the parts, and the end
  for (size_t i = 0; i <= token.size(); ++i) cuts.push_back(i);
  while (cuts.size() > 3) {
    uint32_t best = rank;
    size_t at = 0;
    for (size_t i = 0; i + 2 < cuts.size(); ++i) {
      const uint32_t r = ranks.find(std::string_view(token).substr(cuts[i], cuts[i + 2] - cuts[i]));
      if (r < best) best = r, at = i;
    }
    if (best == rank) return false;
    cuts.erase(cuts.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
  left = token.substr(0, cuts[1]);
  right = token.substr(cuts[1]);
  return ranks.find(left) != kNoId && ranks.find(right) != kNoId;
}

Json to_json(Ranks ranks) {
  constexpr size_t kMaxMergedBytes = 1024;  // more than any real token: find_parents takes quadratic time
  std::sort(ranks.tokens.begin(), ranks.tokens.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  Vocabulary by_bytes;
  for (const auto& [bytes, rank] : ranks.tokens) by_bytes.add(bytes, rank);
  Json vocab = Json::object(), merges = Json::array();
  std::string left, right;
  for (const auto& [bytes, rank] : ranks.tokens) {
    if (by_bytes.find(bytes) != rank) continue;  // a duplicate
    put_token(vocab, bytes_to_letters(bytes), rank);
    if (bytes.size() > 1 && bytes.size() <= kMaxMergedBytes &&
        find_parents(by_bytes, bytes, rank, left, right))
      merges.push_back(Json::array({bytes_to_letters(left), bytes_to_letters(right)}));
  }
  Json json = empty_tokenizer();
  for (const auto& [token, id] : ranks.specials) json["added_tokens"].push_back(added_token(id, token, true));
  json["pre_tokenizer"] = sequence_stage(
      "pretokenizers", Json::array({split_stage(ranks.pattern), byte_level_stage(false, false)}));
  json["decoder"] = byte_level_stage(true, true);
  json["model"] = bpe_model(std::move(vocab), std::move(merges), true);
  return json;
}

}  // namespace

Result<Json> tiktoken_to_json(std::string_view text, const std::string& name, const std::string& place) {
  Result<Ranks> ranks = Ranks{};
  if (text.starts_with("{")) {
    MAKAR_TRY(const Json json, parse_json(text, place));
    ranks = read_packed(json);
  } else {
    ranks = read_lines(text);
  }
  if (!ranks.ok()) return ranks.error().in(place);
  if (ranks->tokens.empty())
    return error_at(place, "has no ranks; expected a token in base64 and its rank per line");
  if (ranks->pattern.empty()) {
    const KnownEncoding* encoding = nullptr;
    for (const KnownEncoding& known : known_encodings())
      if (!encoding && (name.empty() ? known.ranks == ranks->tokens.size() : name == known.name))
        encoding = &known;
    if (!encoding)
      return error_of(Error::Kind::kUnsupported, place,
                      "{} ranks do not match a known encoding (gpt2, p50k_base, cl100k_base, "
                      "o200k_base, qwen, llama3); name the file after its encoding, such as "
                      "cl100k_base.tiktoken",
                      ranks->tokens.size());
    ranks->pattern = encoding->pattern;
    for (const auto& [token, id] : encoding->specials) ranks->specials.emplace_back(token, id);
  }
  return to_json(std::move(*ranks));
}

}  // namespace makar
