#include "metrics/overlap.h"

#include <utility>

#include "metrics/chrf.h"
#include "metrics/subsequence.h"

namespace makar {
namespace {

BleuOptions sentence_bleu() {
  BleuOptions o;
  o.effective_order = true;
  return o;
}

double f1_of_words(double same, const OverlapText& hyp, const OverlapText& ref) {
  if (same == 0) return 0;
  return 2 * same / static_cast<double>(hyp.words.size() + ref.words.size());
}

}  // namespace

Result<Overlap> parse_overlap(const std::string& name, const std::string& place) {
  constexpr std::pair<const char*, Overlap> kNames[] = {{"bleu", Overlap::kBleu},
                                                        {"chrf", Overlap::kChrf},
                                                        {"rouge-l", Overlap::kRougeL},
                                                        {"f1", Overlap::kF1}};
  for (const auto& [known, kind] : kNames)
    if (name == known) return kind;
  return error_at(place, "expected bleu, chrf, rouge-l or f1, got '{}'", name);
}

OverlapText prepare_overlap(Overlap kind, const std::string& text) {
  if (kind == Overlap::kChrf) return {{}, {0, prepare_chrf(text, {})}};
  OverlapText out{split_words(WordSplit::k13a, text)};
  if (kind == Overlap::kBleu) out.ngrams = prepare_bleu(text, sentence_bleu());
  if (kind == Overlap::kF1) out.ngrams.counts = {count_ngrams(out.words, 1)};
  return out;
}

double overlap(Overlap kind, const OverlapText& hyp, const OverlapText& ref) {
  switch (kind) {
    case Overlap::kBleu: {
      const BleuText* const references[] = {&ref.ngrams};
      return bleu_score(bleu_statistics(hyp.ngrams, references), sentence_bleu()).score / 100;
    }
    case Overlap::kChrf:
      return chrf_score(chrf_statistics(hyp.ngrams.counts, ref.ngrams.counts), {}) / 100;
    case Overlap::kRougeL:
      return f1_of_words(static_cast<double>(common_subsequence(hyp.words, ref.words)), hyp, ref);
    case Overlap::kF1:
      return f1_of_words(static_cast<double>(common_ngrams(hyp.ngrams.counts[0], ref.ngrams.counts[0])), hyp,
                         ref);
  }
  return 0;
}

}  // namespace makar
