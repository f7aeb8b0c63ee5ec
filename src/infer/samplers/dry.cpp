// DRY ("don't repeat yourself"): if the end of the text occurred before, the token that followed there is
// penalised by multiplier * base^(length - allowed), where length is the length of the match. The Z function
// of the reversed text gives all match lengths at once, so the time is linear even for repetitive texts.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "infer/samplers/step.h"

namespace makar {
namespace {

// z[j]: length of the match between s[j...] and s.
std::vector<size_t> z_function(const std::vector<int64_t>& s) {
  std::vector<size_t> z(s.size(), 0);
  size_t left = 0, right = 0;
  for (size_t j = 1; j < s.size(); ++j) {
    if (j < right) z[j] = std::min(right - j, z[j - left]);
    while (j + z[j] < s.size() && s[z[j]] == s[j + z[j]]) ++z[j];
    if (j + z[j] > right) left = j, right = j + z[j];
  }
  return z;
}

}  // namespace

void dry(std::span<float> logits, const DrawContext& draw) {
  const SamplerOptions& o = draw.options;
  auto tokens = draw.tokens;
  if (o.dry_penalty_last_n >= 0 && tokens.size() > static_cast<size_t>(o.dry_penalty_last_n))
    tokens = tokens.last(static_cast<size_t>(o.dry_penalty_last_n));
  const auto breaks = [&](int64_t id) {
    return std::find(o.dry_breakers.begin(), o.dry_breakers.end(), id) != o.dry_breakers.end();
  };
  const std::vector<int64_t> reversed(tokens.rbegin(), tokens.rend());
  size_t max_match = 0;  // no match extends over a breaker
  while (max_match < reversed.size() && !breaks(reversed[max_match])) ++max_match;
  if (max_match == 0) return;
  const size_t allowed = static_cast<size_t>(std::max<int64_t>(o.dry_allowed_length, 1));
  const std::vector<size_t> z = z_function(reversed);
  std::unordered_map<int64_t, size_t> longest;  // longest match by following token
  for (size_t j = 1; j < reversed.size(); ++j) {
    const size_t length = std::min(z[j], max_match);
    const int64_t next = reversed[j - 1];
    if (length < allowed || next < 0 || static_cast<size_t>(next) >= logits.size() || breaks(next)) continue;
    size_t& best = longest[next];
    best = std::max(best, length);
  }
  for (const auto& [id, length] : longest) {
    const double penalty = o.dry_multiplier * std::pow(o.dry_base, static_cast<double>(length - allowed));
    logits[static_cast<size_t>(id)] -= static_cast<float>(std::min(penalty, 1e30));
  }
}

}  // namespace makar
