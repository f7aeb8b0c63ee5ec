// A study: prompts with answers that people compare, and the ratings that they gave. Files are JSONL.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace makar {

// pair: two answers, which is better. rank: two to nine answers from best to worst. scale: every answer gets
// 1 to 5 on each scale of the item.
enum class RatingKind { kPair, kRank, kScale };
const char* name(RatingKind kind);

struct StudyItem {
  Json prompt;  // a text, or a list of messages
  std::vector<std::string> answers;
  std::vector<std::string> systems;  // the source of each answer; "1", "2", ... if not given
  RatingKind kind = RatingKind::kPair;
  std::vector<std::string> scales;  // 1 to 16 different names
};
struct Study {
  std::string name;
  std::vector<StudyItem> items;
};
// Lines {"prompt", "answers", "systems", "kind", "scales"}; the last three may be absent: one answer is a
// scale, two are a pair, more a ranking; the scales are rating_scales(). Errors have file and line.
Result<Study> parse_study(const std::string& text, const std::string& place);
Result<Study> read_study(const std::string& path, size_t limit = size_t{64} << 20);

// One rater's ratings of an item. Lists are in the order of the item's answers.
struct Rating {
  std::string rater;
  size_t item = 0;
  std::vector<int64_t> ranks;  // 1 is best; equal ranks are ties. Empty for scales alone
  std::vector<std::map<std::string, int64_t>> scales;  // per answer; empty if not given
  std::string correction, critique;                    // may be empty
};
const std::vector<std::string>& rating_scales();  // usefulness, truthfulness, harmlessness
// The scales of all items, in order of appearance.
std::vector<std::string> scales_of(const Study& study);
Result<Rating> parse_rating(const Json& json, const Study& study, const std::string& place);
Json rating_json(const Rating& rating);

// Ratings of a file. If a rater rated an item several times, the last rating counts. An incomplete last line
// is ignored.
Result<std::vector<Rating>> parse_ratings(const std::string& text, const Study& study,
                                          const std::string& place);
// "study.jsonl" -> "study.ratings.jsonl"
std::string ratings_path(const std::string& study_path);
Result<std::vector<Rating>> read_ratings_of(const std::string& study_path, const Study& study);

// The order in which a rater sees the answers of an item: position -> answer.
std::vector<size_t> blind_order(const std::string& rater, size_t item, size_t answers);

}  // namespace makar
