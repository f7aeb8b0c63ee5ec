// The attention of a recurrent decoder to its encoder (Luong et al., 2015; Bahdanau et al., 2015).
#include "models/families/pages.h"

namespace makar {
namespace {

template <class T>
T recurrent_choice(Reader& r, const char* key, const char* fallback,
                   const std::vector<std::pair<std::string, T>>& known) {
  const std::string text = r.text_or(key, fallback);
  std::string names;
  for (const auto& [name, value] : known) {
    if (name == text) return value;
    names += (names.empty() ? "" : ", ") + name;
  }
  r.require(false, key, fmt::format("is '{}'; expected one of: {}", text, names));
  return known[0].second;
}

}  // namespace

// Every decoder layer takes its initial state from the encoder. Additive attention is part of the first
// layer; other kinds are a layer of their own after the last one.
void recurrent_attention(Reader& r, ModelSpec& m) {
  using Score = AlignmentSpec::Score;
  using Range = AlignmentSpec::Range;
  AlignmentSpec a;
  const std::string kind = r.text_or("attention", "general");
  a.score = recurrent_choice<Score>(r, "attention", "general",
                                    {{"general", Score::kGeneral},
                                     {"dot", Score::kDot},
                                     {"concat", Score::kConcat},
                                     {"location", Score::kLocation},
                                     {"additive", Score::kAdditive},
                                     {"none", Score::kGeneral}});
  a.range = recurrent_choice<Range>(
      r, "local_attention", "none",
      {{"none", Range::kGlobal}, {"monotonic", Range::kMonotonic}, {"predictive", Range::kPredictive}});
  a.half_window = r.integer_or("local_window", 10, 1, 4096);
  const bool additive = a.score == Score::kAdditive;
  r.unsupported(additive && a.range != Range::kGlobal, "local_attention",
                "is not supported with additive attention");
  if (a.score == Score::kLocation)
    a.positions = r.positions_or("max_position_embeddings", 256), m.max_positions = a.positions;
  StackSpec& s = *m.decoder;
  for (BlockSpec& b : s.blocks) {
    b.attention.window = 0;
    b.cross = b.attention;
    b.cross->causal = false;
  }
  if (kind == "none") return;
  if (additive) {
    s.blocks[0].recurrent->reads_source = true;
    s.blocks[0].alignment = a;
    return;
  }
  BlockSpec last = s.blocks[0];
  last.recurrent.reset();
  last.alignment = a;
  s.blocks.push_back(last);
}

}  // namespace makar
