// Any bytes as a corpus and a few settings: training gives an error with a message, or a tokenizer that
// loads, encodes its corpus, and is the same for another thread count and memory limit.
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "target.h"
#include "text/tokenizer.h"
#include "text/train/train.h"
#include "text/unicode.h"

using namespace makar;

namespace {

const std::string& corpus_path() {
  static const std::string path = [] {
    char name[] = "/tmp/makar_fuzz_train_XXXXXX";
    const int file = mkstemp(name);
    check(file >= 0, "a temporary file can be created");
    std::atexit([] { std::remove(corpus_path().c_str()); });
    return std::string(name);
  }();
  return path;
}

Result<TrainReport> train(const TrainSettings& settings, bool jsonl, int threads) {
  CorpusOptions options;
  options.paths = {corpus_path()};
  options.jsonl = jsonl;
  auto corpus = Corpus::open(options);
  if (!corpus.ok()) return corpus.error();
  ThreadPool pool(threads);
  return train_tokenizer(*corpus, settings, pool);
}

}  // namespace

FUZZ_TARGET(text_train) {
  if (size < 4 || size > 4096) return 0;
  using Model = TrainSettings::Model;
  constexpr Model kModels[] = {Model::kBpe, Model::kWordPiece, Model::kUnigram, Model::kWord,
                               Model::kCharacter};
  constexpr const char* kPipelines[] = {"byte-level", "llama3", "whitespace", "bert", "metaspace", "none"};
  TrainSettings settings;
  settings.model = kModels[data[0] % 5];
  settings.vocab_size = data[1] * size_t{3};
  settings.min_frequency = data[2] % 4;
  if (data[2] & 4) settings.special_tokens = {"<unk>", "<s>", ""};
  settings.bpe.score_by_likelihood = data[2] & 8;
  settings.bpe.max_token_length = data[2] >> 5;
  settings.pipeline = *TrainPipeline::named(kPipelines[data[3] % 6], settings.special_tokens);
  const bool jsonl = data[3] & 64;
  const std::string_view text(reinterpret_cast<const char*>(data) + 4, size - 4);
  std::ofstream(corpus_path(), std::ios::binary)
      .write(text.data(), static_cast<std::streamsize>(text.size()));

  const auto single_threaded = train(settings, jsonl, 1);
  if (!single_threaded.ok()) {
    check(!single_threaded.error().message.empty(), "an error has a message");
    return 0;
  }
  settings.max_memory = size_t{64} << 20;  // the minimum
  const auto two_threads = train(settings, jsonl, 2);
  check(two_threads.ok() && single_threaded->tokenizer.dump() == two_threads->tokenizer.dump(),
        "the same at any thread count and limit");
  const auto tokenizer = Tokenizer::from_json(single_threaded->tokenizer, "trained");
  check(tokenizer.ok(), "the trained tokenizer loads");
  const auto encoding = tokenizer->encode(text);
  if (encoding.ok() && tokenizer->byte_level() && settings.model == Model::kBpe)
    check(is_valid_utf8(tokenizer->decode(encoding->ids)), "decoded text is UTF-8");
  return 0;
}
