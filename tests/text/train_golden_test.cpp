// The trainers against tokenizers trained by the Hugging Face library on the same corpora.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "text/fixtures.h"
#include "text/train/train.h"
#include "text/unicode.h"

namespace makar {
namespace {

struct Case {
  const char* corpus;
  const char* kind;
  size_t vocab;
};

std::string corpus_path(const std::string& name) {
  const std::string packed = name == "corpus" ? assets() + "/tokenizers/bpe_train_reference/corpus.en.gz"
                                              : assets() + "/train/tinyshakespeare.txt.gz";
  const auto path =
      std::filesystem::temp_directory_path() / ("makar_golden_" + std::to_string(::getpid()) + name + ".txt");
  if (!std::filesystem::exists(path)) std::ofstream(path, std::ios::binary) << read_packed(packed);
  return path.string();
}

// The settings from the golden tokenizer.json and its note.
TrainSettings settings_of(const Json& golden, const std::string& kind, size_t vocab) {
  TrainSettings s;
  s.pipeline = {golden["normalizer"], golden["pre_tokenizer"], golden["post_processor"], golden["decoder"]};
  s.vocab_size = vocab;
  s.min_frequency = kind == "bpe-llama3-split" ? 0 : 2;
  for (const Json& token : golden["added_tokens"])
    s.special_tokens.push_back(token["content"].get<std::string>());
  if (kind == "bpe-whitespace-unk") s.bpe.limit_alphabet = 60, s.unk_token = "[UNK]";
  if (kind.starts_with("wordpiece")) s.model = TrainSettings::Model::kWordPiece;
  if (kind.starts_with("unigram")) s.model = TrainSettings::Model::kUnigram, s.unk_token = "<unk>";
  return s;
}

Result<TrainReport> train(const std::string& path, const TrainSettings& s) {
  ThreadPool pool(2);
  CorpusOptions options;
  options.paths = {path};
  MAKAR_TRY(Corpus corpus, Corpus::open(options));
  return train_tokenizer(corpus, s, pool);
}

class TrainGolden : public testing::TestWithParam<Case> {};

TEST_P(TrainGolden, EqualsTheReference) {
  const Case c = GetParam();
  const std::string folder =
      shared_golden() + "/tokenizers/trained/" + c.corpus + "-" + c.kind + "-" + std::to_string(c.vocab);
  if (!is_folder(folder) || !is_folder(assets())) GTEST_SKIP() << folder << " is not available";
  const auto golden = read_json(folder + "/tokenizer.json");
  ASSERT_TRUE(golden.ok()) << golden.error().text();
  TrainSettings s = settings_of(*golden, c.kind, c.vocab);
  const Json& model = (*golden)["model"];
  std::vector<std::string> tokens(c.vocab);
  if (model["type"] != "Unigram")
    for (const auto& [token, id] : model["vocab"].items()) tokens[id.get<size_t>()] = token;
  // The reference numbers continuing characters in the order of a hash table, which decides ties.
  if (model["type"] == "WordPiece")
    for (size_t i = s.special_tokens.size();
         i < tokens.size() && (tokens[i].size() <= 4 || tokens[i].starts_with("##")); ++i) {
      const std::string bare = tokens[i].starts_with("##") ? tokens[i].substr(2) : tokens[i];
      if (count_code_points(bare) != 1) break;
      s.bpe.initial_tokens.push_back(tokens[i]);
    }
  const auto report = train(corpus_path(c.corpus), s);
  ASSERT_TRUE(report.ok()) << report.error().text();
  const Json& trained = report->tokenizer["model"];
  if (model["type"] == "Unigram") {
    std::set<std::string> a, b, both;
    for (const Json& p : model["vocab"]) a.insert(p[0].get<std::string>());
    for (const Json& p : trained["vocab"]) b.insert(p[0].get<std::string>());
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::inserter(both, both.begin()));
    std::printf("%s: %zu of %zu pieces are the same\n", folder.c_str() + folder.rfind('/') + 1, both.size(),
                a.size());
    EXPECT_EQ(trained["vocab"].size(), c.vocab);
    EXPECT_GE(static_cast<double>(both.size()), 0.95 * static_cast<double>(a.size()));
    const std::string text = read_packed(c.corpus == std::string("corpus")
                                             ? assets() + "/tokenizers/bpe_train_reference/corpus.en.gz"
                                             : assets() + "/train/tinyshakespeare.txt.gz");
    const auto reference = Tokenizer::from_json(*golden, "reference"),
               tokenizer = Tokenizer::from_json(report->tokenizer, "trained");
    ASSERT_TRUE(reference.ok() && tokenizer.ok());
    const auto x = reference->encode(text), y = tokenizer->encode(text);
    ASSERT_TRUE(x.ok() && y.ok());
    std::printf("  %zu ids against %zu of the reference, loss %.4f\n", y->size(), x->size(), report->loss);
    EXPECT_LT(static_cast<double>(y->size()), 1.01 * static_cast<double>(x->size()));
    return;
  }
  size_t same = 0;
  for (const auto& [token, id] : trained["vocab"].items()) same += tokens[id.get<size_t>()] == token;
  EXPECT_EQ(same, c.vocab) << "tokens that have the id of the reference";
  if (model["type"] == "BPE") EXPECT_TRUE(trained["merges"] == model["merges"]);
  EXPECT_EQ(report->tokenizer["added_tokens"].dump(), (*golden)["added_tokens"].dump());
}

INSTANTIATE_TEST_SUITE_P(
    All, TrainGolden,
    testing::Values(Case{"corpus", "bpe-bytelevel", 2000}, Case{"corpus", "bpe-llama3-split", 2000},
                    Case{"corpus", "bpe-whitespace-unk", 2000}, Case{"corpus", "wordpiece-bert", 2000},
                    Case{"corpus", "unigram-metaspace", 2000}, Case{"tinyshakespeare", "bpe-bytelevel", 5000},
                    Case{"tinyshakespeare", "bpe-llama3-split", 5000},
                    Case{"tinyshakespeare", "bpe-whitespace-unk", 5000},
                    Case{"tinyshakespeare", "wordpiece-bert", 5000},
                    Case{"tinyshakespeare", "unigram-metaspace", 5000}),
    [](const auto& info) {
      std::string name = std::string(info.param.corpus) + "_" + info.param.kind;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace makar
