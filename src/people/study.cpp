#include "people/study.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/file.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "text/unicode.h"

namespace makar {
namespace {

constexpr size_t kMaxStudyBytes = size_t{64} << 20, kMaxLineBytes = size_t{4} << 20, kMaxItems = 20'000,
                 kMaxAnswers = 9, kMaxRaterBytes = 64, kMaxNoteBytes = size_t{64} << 10,
                 kMaxRatings = 1'000'000, kMaxScales = 16, kMaxScaleBytes = 64;

// Calls `use` with each line that is not blank; `include_unterminated`: also with a last line without a line
// break.
Status each_line(const std::string& text, const std::string& place, bool include_unterminated,
                 const std::function<Status(const std::string& line, const std::string& place)>& use) {
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (end == std::string::npos && !include_unterminated) break;
    const std::string line = text.substr(at, end == std::string::npos ? end : end - at);
    at = end == std::string::npos ? text.size() : end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    MAKAR_RETURN_IF_ERROR(use(line, fmt::format("{}:{}", place, number)));
  }
  return Done{};
}

bool is_conversation(const Json& prompt) {
  return prompt.is_array() && !prompt.empty() &&
         std::all_of(prompt.begin(), prompt.end(), [](const Json& one) {
           return one.is_object() && one.contains("role") && one["role"].is_string() &&
                  one.contains("content") && one["content"].is_string();
         });
}

Result<std::vector<std::string>> texts_at(const Json& json, const char* key, const std::string& place) {
  std::vector<std::string> out;
  if (!json[key].is_array()) return error_at(place, "'{}': expected a list of texts", key);
  for (const Json& one : json[key]) {
    if (!one.is_string()) return error_at(place, "'{}': expected a list of texts", key);
    out.push_back(to_valid_utf8(one.get<std::string>()));
  }
  return out;
}

Result<RatingKind> kind_of(const Json& json, size_t answers, const std::string& place) {
  RatingKind kind = answers == 1 ? RatingKind::kScale : answers == 2 ? RatingKind::kPair : RatingKind::kRank;
  if (!json.contains("kind")) return kind;
  const std::string word = json["kind"].is_string() ? json["kind"].get<std::string>() : json["kind"].dump();
  for (const RatingKind one : {RatingKind::kPair, RatingKind::kRank, RatingKind::kScale})
    if (word == name(one)) {
      const bool fits = one == RatingKind::kScale || (one == RatingKind::kPair ? answers == 2 : answers >= 2);
      if (!fits) return error_at(place, "{} answers cannot be rated as a {}", answers, word);
      return one;
    }
  return error_at(place, "'kind' is {}{}; expected pair, rank or scale", quote(word),
                  did_you_mean(word, {"pair", "rank", "scale"}));
}

Result<std::vector<std::string>> item_scales(const Json& json, const std::string& place) {
  if (!json.contains("scales")) return rating_scales();
  MAKAR_TRY(const auto out, texts_at(json, "scales", place));
  const bool valid_names = std::all_of(out.begin(), out.end(), [](const std::string& one) {
    return !one.empty() && one.size() <= kMaxScaleBytes;
  });
  if (!valid_names || out.empty() || out.size() > kMaxScales ||
      std::set<std::string>(out.begin(), out.end()).size() != out.size())
    return error_at(place, "'scales': expected 1 to {} different names of up to {} bytes", kMaxScales,
                    kMaxScaleBytes);
  return out;
}

Result<StudyItem> parse_item(const std::string& line, const std::string& place) {
  MAKAR_TRY(const Json json, parse_json(line, place, {kMaxLineBytes, 16}));
  if (!json.is_object() || !json.contains("prompt") || !json.contains("answers"))
    return error_at(place, "expected an object with 'prompt' and 'answers'");
  StudyItem out;
  out.prompt = json["prompt"];
  if (!out.prompt.is_string() && !is_conversation(out.prompt))
    return error_at(place, "'prompt': expected a text or a list of messages with role and content");
  MAKAR_TRY(out.answers, texts_at(json, "answers", place));
  if (out.answers.empty() || out.answers.size() > kMaxAnswers)
    return error_at(place, "'answers': expected 1 to {}, got {}", kMaxAnswers, out.answers.size());
  if (json.contains("systems")) {
    MAKAR_TRY(out.systems, texts_at(json, "systems", place));
    if (out.systems.size() != out.answers.size())
      return error_at(place, "'systems': expected one for each of {} answers, got {}", out.answers.size(),
                      out.systems.size());
  } else {
    for (size_t i = 0; i < out.answers.size(); ++i) out.systems.push_back(std::to_string(i + 1));
  }
  MAKAR_TRY(out.kind, kind_of(json, out.answers.size(), place));
  MAKAR_TRY(out.scales, item_scales(json, place));
  return out;
}

Result<int64_t> read_integer(const Json& json, int64_t low, int64_t high, const std::string& what,
                             const std::string& place) {
  if (!json.is_number_integer() || json < low || json > high)
    return error_at(place, "'{}': expected {} to {}, got {}", what, low, high,
                    quote(json.dump().substr(0, 100)));
  return json.get<int64_t>();
}

Result<std::string> read_text(const Json& json, const char* key, size_t max, const std::string& place) {
  if (!json.contains(key)) return std::string();
  if (!json[key].is_string()) return error_at(place, "'{}': expected a text", key);
  const std::string text = to_valid_utf8(json[key].get<std::string>());
  if (text.size() > max) return error_at(place, "'{}': has {} bytes; the limit is {}", key, text.size(), max);
  return text;
}

}  // namespace

const char* name(RatingKind kind) {
  return kind == RatingKind::kPair ? "pair" : kind == RatingKind::kRank ? "rank" : "scale";
}

const std::vector<std::string>& rating_scales() {
  static const std::vector<std::string> names = {"usefulness", "truthfulness", "harmlessness"};
  return names;
}

std::vector<std::string> scales_of(const Study& study) {
  std::vector<std::string> out;
  std::set<std::string> seen;
  for (const StudyItem& item : study.items)
    for (const std::string& scale : item.scales)
      if (seen.insert(scale).second) out.push_back(scale);
  return out;
}

Result<Study> parse_study(const std::string& text, const std::string& place) {
  Study out;
  const size_t slash = place.rfind('/');
  out.name = slash == std::string::npos ? place : place.substr(slash + 1);
  if (out.name.ends_with(".jsonl")) out.name.resize(out.name.size() - 6);
  MAKAR_RETURN_IF_ERROR(
      each_line(text, place, true, [&](const std::string& line, const std::string& where) -> Status {
        if (out.items.size() == kMaxItems)
          return error_of(Error::Kind::kLimit, where, "more than {} items", kMaxItems);
        MAKAR_TRY(StudyItem item, parse_item(line, where));
        out.items.push_back(std::move(item));
        return Done{};
      }));
  if (out.items.empty()) return error_at(place, "has no items");
  return out;
}

Result<Study> read_study(const std::string& path, size_t limit) {
  MAKAR_TRY(const std::string text, read_file(path, limit));
  return parse_study(text, path);
}

Result<Rating> parse_rating(const Json& json, const Study& study, const std::string& place) {
  if (!json.is_object() || !json.contains("rater") || !json.contains("item"))
    return error_at(place, "expected an object with 'rater' and 'item'");
  Rating out;
  MAKAR_TRY(out.rater, read_text(json, "rater", kMaxRaterBytes, place));
  if (out.rater.empty()) return error_at(place, "'rater': is empty");
  MAKAR_TRY(const int64_t index,
            read_integer(json["item"], 0, static_cast<int64_t>(study.items.size()) - 1, "item", place));
  out.item = static_cast<size_t>(index);
  const StudyItem& item = study.items[out.item];
  const auto answers = item.answers.size();
  if (json.contains("ranks") && !json["ranks"].is_null()) {
    if (!json["ranks"].is_array() || json["ranks"].size() != answers)
      return error_at(place, "'ranks': expected a rank for each of {} answers", answers);
    for (const Json& one : json["ranks"]) {
      MAKAR_TRY(const int64_t rank, read_integer(one, 1, static_cast<int64_t>(answers), "ranks", place));
      out.ranks.push_back(rank);
    }
  }
  if (json.contains("scales") && !json["scales"].is_null()) {
    if (!json["scales"].is_array() || json["scales"].size() != answers)
      return error_at(place, "'scales': expected an object for each of {} answers", answers);
    for (const Json& one : json["scales"]) {
      if (!one.is_object()) return error_at(place, "'scales': expected objects");
      auto& values = out.scales.emplace_back();
      for (const auto& [key, value] : one.items()) {
        const auto& known = item.scales;
        if (std::find(known.begin(), known.end(), key) == known.end())
          return error_at(place, "'scales': {} is not a scale{}", quote(key), did_you_mean(key, known));
        MAKAR_TRY(values[key], read_integer(value, 1, 5, key, place));
      }
    }
  }
  if (item.kind == RatingKind::kScale ? out.scales.empty() : out.ranks.empty())
    return error_at(place, "'{}' is missing", item.kind == RatingKind::kScale ? "scales" : "ranks");
  MAKAR_TRY(out.correction, read_text(json, "correction", kMaxNoteBytes, place));
  MAKAR_TRY(out.critique, read_text(json, "critique", kMaxNoteBytes, place));
  return out;
}

Json rating_json(const Rating& rating) {
  Json out = {{"rater", rating.rater}, {"item", rating.item}};
  if (!rating.ranks.empty()) out["ranks"] = rating.ranks;
  if (!rating.scales.empty()) out["scales"] = rating.scales;
  if (!rating.correction.empty()) out["correction"] = rating.correction;
  if (!rating.critique.empty()) out["critique"] = rating.critique;
  return out;
}

Result<std::vector<Rating>> parse_ratings(const std::string& text, const Study& study,
                                          const std::string& place) {
  std::vector<Rating> out;
  std::map<std::pair<std::string, size_t>, size_t> index;  // by rater and item
  MAKAR_RETURN_IF_ERROR(
      each_line(text, place, false, [&](const std::string& line, const std::string& where) -> Status {
        MAKAR_TRY(const Json json, parse_json(line, where, {kMaxLineBytes, 16}));
        MAKAR_TRY(Rating rating, parse_rating(json, study, where));
        const auto [found, added] = index.emplace(std::pair(rating.rater, rating.item), out.size());
        if (!added)
          out[found->second] = std::move(rating);
        else if (out.size() == kMaxRatings)
          return error_of(Error::Kind::kLimit, where, "more than {} ratings", kMaxRatings);
        else
          out.push_back(std::move(rating));
        return Done{};
      }));
  return out;
}

std::string ratings_path(const std::string& study_path) {
  constexpr std::string_view kSuffix = ".jsonl";
  const size_t suffix = study_path.ends_with(kSuffix) ? kSuffix.size() : 0;
  return study_path.substr(0, study_path.size() - suffix) + ".ratings.jsonl";
}

Result<std::vector<Rating>> read_ratings_of(const std::string& study_path, const Study& study) {
  const std::string path = ratings_path(study_path);
  if (!is_file(path)) return std::vector<Rating>();
  MAKAR_TRY(const std::string text, read_file(path, kMaxStudyBytes * 4));
  return parse_ratings(text, study, path);
}

std::vector<size_t> blind_order(const std::string& rater, size_t item, size_t answers) {
  std::vector<size_t> order(answers);
  std::iota(order.begin(), order.end(), size_t{0});
  const std::string hash = sha256_of(rater);
  const Rng rng(std::stoull(hash.substr(0, 15), nullptr, 16), Purpose::kShuffle, item);
  for (size_t i = answers; i > 1; --i)
    std::swap(order[i - 1], order[static_cast<size_t>(rng.uniform_double(i) * static_cast<double>(i))]);
  return order;
}

}  // namespace makar
