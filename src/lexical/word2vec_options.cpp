#include "lexical/word2vec_options.h"

#include "base/nearest.h"

namespace makar {

std::span<const TableOption<Word2VecOptions>> word2vec_options() {
  using W = Word2VecOptions;
  constexpr const char *kModel = "Vectors", *kTraining = "Training", *kSubwords = "Character n-grams";
  static const TableOption<W> kOptions[] = {
      {"dim", &W::width, 1, 10000, "N", "dimensions of a vector", kModel},
      {"window ws", &W::window, 1, 1000, "N", "context words on each side", kModel},
      {"loss", &W::loss, 0, 0, "NAME",
       "ns: negative sampling; hs: hierarchical softmax; softmax: over all words", kModel},
      {"negative neg", &W::negatives, 1, 1000, "N", "negative samples per word", kModel},
      {"subsample sample", &W::subsample, 0, 1, "X",
       "words more frequent than this are dropped at random; 0: none", kModel},
      {"minn", &W::min_ngram, 1, 20, "N", "shortest character n-grams of a word", kSubwords},
      {"maxn", &W::max_ngram, 0, 20, "N", "longest character n-grams; 0: words only", kSubwords},
      {"bucket", &W::buckets, 1, 1e8, "N", "number of hash buckets for character n-grams", kSubwords},
      {"epochs epoch iter", &W::epochs, 1, 10000, "N", "passes over the text", kTraining},
      {"learning_rate lr", &W::learning_rate, 1e-9, 10, "X", "initial learning rate; it falls to 0",
       kTraining},
      {"seed", &W::seed, 0, 9e18, "S", "seed of initial vectors and samples", kTraining},
      {"fast", &W::fast, 0, 1, "", "update shared vectors without locks; results differ from run to run",
       kTraining},
  };
  return kOptions;
}

Status check(const Word2VecOptions& o) {
  MAKAR_RETURN_IF_ERROR(check_table(o, word2vec_options()));
  if (o.loss != "ns" && o.loss != "hs" && o.loss != "softmax")
    return error_at("`loss`", "must be ns, hs or softmax, got '{}'{}", o.loss,
                    did_you_mean(o.loss, {"ns", "hs", "softmax"}));
  if (o.max_ngram > 0 && o.max_ngram < o.min_ngram)
    return error_at("`maxn`", "must be at least `minn` ({}), or 0, got {}", o.min_ngram, o.max_ngram);
  return Done{};
}

}  // namespace makar
