#include "text/split.h"

#include <algorithm>

namespace makar {
namespace {

struct MatchedSpan {
  Span span;
  bool match;
};

}  // namespace

void split_by_matches(std::string_view part, uint32_t base, const std::vector<Span>& matches,
                      SplitBehavior behavior, bool invert, std::vector<Span>& out) {
  std::vector<MatchedSpan> parts;
  parts.reserve(matches.size() * 2 + 1);
  uint32_t at = 0;
  for (const Span match : matches) {
    if (at != match.begin) parts.push_back({{at, match.begin}, invert});
    parts.push_back({match, !invert});
    at = match.end;
  }
  if (at != part.size()) parts.push_back({{at, static_cast<uint32_t>(part.size())}, invert});

  std::vector<Span> spans;
  spans.reserve(parts.size());
  bool previous = false;
  switch (behavior) {
    case SplitBehavior::kRemoved:
      for (const MatchedSpan& p : parts)
        if (!p.match) spans.push_back(p.span);
      break;
    case SplitBehavior::kIsolated:
      for (const MatchedSpan& p : parts) spans.push_back(p.span);
      break;
    case SplitBehavior::kContiguous:
      for (const MatchedSpan& p : parts) {
        if (p.match == previous && !spans.empty())
          spans.back().end = p.span.end;
        else
          spans.push_back(p.span);
        previous = p.match;
      }
      break;
    case SplitBehavior::kMergedWithPrevious:
      for (const MatchedSpan& p : parts) {
        if (p.match && !previous && !spans.empty())
          spans.back().end = p.span.end;
        else
          spans.push_back(p.span);
        previous = p.match;
      }
      break;
    case SplitBehavior::kMergedWithNext:
      for (size_t i = parts.size(); i-- > 0;) {
        const MatchedSpan& p = parts[i];
        if (p.match && !previous && !spans.empty())
          spans.back().begin = p.span.begin;
        else
          spans.push_back(p.span);
        previous = p.match;
      }
      std::reverse(spans.begin(), spans.end());
      break;
  }
  for (const Span span : spans)
    if (span.begin < span.end) out.push_back({base + span.begin, base + span.end});
}

}  // namespace makar
