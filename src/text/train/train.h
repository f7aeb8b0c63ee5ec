// Trains a tokenizer from files: counts words through the pipeline, trains the model, and builds a
// tokenizer.json.
#pragma once
#include <functional>
#include <string>

#include "base/json.h"
#include "base/thread_pool.h"
#include "text/train/bpe_trainer.h"
#include "text/train/corpus.h"
#include "text/train/unigram_trainer.h"
#include "text/train/word_counter.h"

namespace makar {

// The stages around the model, as sections of a tokenizer.json (null: none).
struct TrainPipeline {
  Json normalizer, pre_tokenizer, post_processor, decoder;
  // byte-level, llama3, whitespace, bert, metaspace, none; the error names the nearest.
  static Result<TrainPipeline> named(const std::string& name, const std::vector<std::string>& special_tokens);
};

struct TrainSettings {
  enum class Model { kBpe, kWordPiece, kUnigram, kWord, kCharacter };
  Model model = Model::kBpe;
  TrainPipeline pipeline;
  size_t vocab_size = 30'000;
  uint64_t min_frequency = 0;
  std::vector<std::string> special_tokens;
  std::string unk_token;  // "": none (Unigram, WordPiece, word and character models have a default)
  BpeSettings bpe;        // the other settings of BPE and WordPiece
  UnigramSettings unigram;
  size_t max_memory = size_t{4} << 30;
  std::string temporary_folder;  // "": TMPDIR or /tmp
};

struct TrainStage {
  const char* name;  // "count", "merge", "prune"
  uint64_t done, total;
  double loss = 0;
};

struct TrainReport {
  Json tokenizer;  // a tokenizer.json
  uint64_t sequences = 0, bytes = 0, words = 0, different_words = 0, dropped_words = 0, dropped_total = 0;
  size_t runs = 0;  // runs spilled to disk while counting
  double loss = 0;  // Unigram only
};

Result<WordCounts> count_words(Corpus& corpus, const TrainSettings& settings, ThreadPool& pool,
                               const std::function<void(const TrainStage&)>& progress);

// Trains only the model section, from counted words.
Result<Json> train_model(const std::vector<WordCount>& words, const TrainSettings& settings, ThreadPool& pool,
                         const std::function<void(const TrainStage&)>& progress, double* loss = nullptr);

Result<TrainReport> train_tokenizer(Corpus& corpus, const TrainSettings& settings, ThreadPool& pool,
                                    const std::function<void(const TrainStage&)>& progress = {});

// Whether words reach the model as bytes (the pipeline has a ByteLevel stage and the model is plain BPE).
bool trains_on_bytes(const TrainSettings& settings);

}  // namespace makar
